"""Templates into answers: escaped, without secrets, under a strict content policy."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.clock import Clock
from app.web import shown
from app.web.access import Access

HERE = Path(__file__).parent
FRAGMENT = "x-fragment"
"""The request header by which the script asks for the part of a page that changes."""

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with it browsers post our own forms with the origin `null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
STATIC = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}


class Pages:
    """Renders the templates. `secrets` are values that are replaced wherever they would appear."""

    def __init__(self, access: Access, clock: Clock, *, zone: str, name: str, secrets: Sequence[str]) -> None:
        self._clock, self._zone = clock, ZoneInfo(zone)
        self._secrets = sorted((secret for secret in secrets if len(secret) >= 6), key=len, reverse=True)
        self._files = {file: (HERE / "static" / file).read_bytes() for file in STATIC}
        self._marks = {file: hashlib.sha256(body).hexdigest()[:12] for file, body in self._files.items()}
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=self._finalize,
        )
        self._templates.filters |= {
            "time": lambda at: shown.clock_time(at, self._zone, clock.now()),
            "iso": lambda at: found.isoformat() if (found := shown.moment(at)) else "",
            "duration": shown.duration,
            "pretty": self._pretty,
            "all": lambda value: self._hide(shown.pretty(value)),
            "sentence": shown.sentence,
            "quoted": lambda text: quote(text, safe=""),
        }
        self._templates.globals |= {
            "agent": name,
            "zone": zone,
            "form_token": access.form_token,
            "logs_in": access.wants_login,
            "static": lambda file: f"/static/{file}?v={self._marks[file]}",
            "took": lambda run: shown.seconds_between(run["startedAt"], run["endedAt"] or clock.now()),
        }

    def answer(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """A whole page; or its changing part alone, when the script asks for that."""
        folder = "live/" if FRAGMENT in request.headers and status == 200 else ""
        text = self._templates.get_template(f"{folder}{template}.html").render(path=request.url.path, **values)
        return HTMLResponse(text, status, headers=HEADERS)

    def static(self, request: Request, file: str) -> Response:
        """The stylesheet or the script; kept by browsers for good, since another version has another address."""
        if file not in self._files:
            return Response("There is no such file.", 404, media_type="text/plain")
        mark = f'"{self._marks[file]}"'
        known = request.query_params.get("v") == self._marks[file]
        headers = {
            "etag": mark,
            "cache-control": "public, max-age=31536000, immutable" if known else "no-cache",
            "x-content-type-options": "nosniff",
        }
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(self._files[file], media_type=STATIC[file], headers=headers)

    def _finalize(self, value: Any) -> Any:
        """Every value on its way into a page, before it is escaped."""
        if isinstance(value, Markup) or not isinstance(value, str):
            return "" if value is None else value
        return self._hide(value)

    def _hide(self, text: str) -> str:
        return shown.hidden(text, self._secrets)

    def _pretty(self, value: Any) -> str:
        """Hidden before it is cut, or the beginning of a secret might stay."""
        return shown.cut(self._hide(shown.pretty(value)))
