"""Who may see the dashboard and press its buttons: a bearer token, a cookie made from it, or loopback without one."""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta

from starlette.datastructures import Headers
from starlette.requests import Request

from app.web.api import LOOPBACK, host_name

COOKIE = "moab_dashboard"
COOKIE_LASTS = timedelta(days=30)
FORM_FIELD = "form_token"

FOREIGN = "Without MOAB_API_TOKEN the dashboard answers on loopback only."
OTHER_ORIGIN = "Pages of other origins may not use the dashboard."
NO_TOKEN = "A bearer token or a login is needed: the value of MOAB_API_TOKEN."  # noqa: S105 - a sentence
STALE_FORM = "This form is from before a restart or from another page: go back, reload and send it again."


class Access:
    """The rules for one service. `loopback`: whether it listens there alone.

    A page in a browser reaches loopback too; a rebound name shows in Host, another site in Origin. What changes
    something needs both the right Origin and a token that only our own pages have.
    """

    def __init__(self, token: str | None, loopback: bool) -> None:
        self._token, self._loopback = token, loopback
        self._key = token.encode() if token is not None else secrets.token_bytes(32)

    @property
    def wants_login(self) -> bool:
        return self._token is not None

    def refusal(self, request: Request, now: datetime) -> str | None:
        """Why this request is not answered, or None."""
        if self._token is None:
            named = host_name(request.headers.get("host", ""))
            return None if self._loopback and named in LOOPBACK else FOREIGN
        if self._has_bearer(request.headers) or self._is_cookie(request.cookies.get(COOKIE, ""), now):
            return None
        return NO_TOKEN

    def refusal_of_form(self, request: Request, form: Mapping[str, str]) -> str | None:
        """Why this form does nothing, or None. No page can make a browser send the bearer token."""
        if self._has_bearer(request.headers):
            return None
        if self.is_elsewhere(request.headers):
            return OTHER_ORIGIN
        return None if _same(form.get(FORM_FIELD, ""), self.form_token) else STALE_FORM

    @property
    def form_token(self) -> str:
        """What our own forms carry."""
        return self._signed("form")

    def is_token(self, given: str) -> bool:
        return self._token is not None and _same(given, self._token)

    def cookie(self, now: datetime) -> str:
        """A value that says: who has this knew the token, until a moment. It does not tell the token."""
        until = str(int((now + COOKIE_LASTS).timestamp()))
        return f"{until}.{self._signed(f'cookie {until}')}"

    @staticmethod
    def is_elsewhere(headers: Headers) -> bool:
        """Whether a page of another origin made this request. Browsers name the origin of every form they post."""
        origin = headers.get("origin")
        if origin is None:
            return headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        return origin.partition("://")[2].lower() != headers.get("host", "").lower()

    def _has_bearer(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(given.strip())

    def _is_cookie(self, value: str, now: datetime) -> bool:
        until, _, signature = value.partition(".")
        if not _same(signature, self._signed(f"cookie {until}")):
            return False
        return until.isdecimal() and int(until) > now.timestamp()

    def _signed(self, what: str) -> str:
        return hmac.new(self._key, f"moab dashboard: {what}".encode(), hashlib.sha256).hexdigest()


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
