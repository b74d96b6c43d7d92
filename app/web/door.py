"""The door of the dashboard: every route behind it is checked first, and its errors become pages."""

import logging
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, PlainTextResponse

from app.clock import Clock
from app.errors import BadInput, MoabError, NotFound, ServiceUnavailable
from app.web.access import COOKIE, COOKIE_LASTS, Access
from app.web.pages import FRAGMENT, Pages

log = logging.getLogger("moab.web")

MAX_FORM_BYTES = 1_000_000
LIVE = "/live"
STATUS: dict[type[MoabError], int] = {NotFound: 404, BadInput: 400, ServiceUnavailable: 503}
SORRY = "Something went wrong inside; the log says what."

LONGEST_PATH = 200
"""How much of an address is repeated to who asked for it."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Missing = Callable[[Request, Exception], Coroutine[Any, Any, Response]]


def guarded_route(access: Access, pages: Pages, clock: Clock) -> type[APIRoute]:
    """The class of the routes behind the door. A GET of a stranger leads to the login; a POST is checked twice."""

    class GuardedRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            inner = super().get_route_handler()

            async def handle(request: Request) -> Response:
                refusal = access.refusal(request, clock.now())
                if refusal is not None:
                    return _turned_away(request, access, pages, refusal)
                try:
                    if request.method == "POST":
                        request.state.form = await read_form(request)
                        refusal = access.refusal_of_form(request, request.state.form)
                        if refusal is not None:
                            return _problem(request, pages, 403, refusal)
                    return await inner(request)
                except MoabError as error:
                    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
                    return _problem(request, pages, status, str(error))
                except Exception:
                    log.exception("The page %s could not be shown.", request.url.path)
                    return _problem(request, pages, 500, SORRY)

            return handle

    return GuardedRoute


def missing_page(access: Access, pages: Pages, clock: Clock) -> Missing:
    """What is answered where nothing is: a page to a browser that may look, a sentence to a program."""

    async def answer(request: Request, _error: Exception) -> Response:
        text = f"There is nothing at {request.url.path[:LONGEST_PATH]}."
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"error": text}, 404)
        refusal = access.refusal(request, clock.now())
        if refusal is not None:
            return _turned_away(request, access, pages, refusal)
        return _problem(request, pages, 404, text)

    return answer


def _turned_away(request: Request, access: Access, pages: Pages, refusal: str) -> Response:
    if not access.wants_login:
        return _problem(request, pages, 403, refusal)
    if request.method == "GET" and FRAGMENT not in request.headers and request.url.path != LIVE:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)
    return PlainTextResponse(refusal, 401)


def _problem(request: Request, pages: Pages, status: int, text: str) -> Response:
    if request.url.path == LIVE or FRAGMENT in request.headers:
        return PlainTextResponse(text, status)
    return pages.answer(request, "problem", status, text=text, code=status)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a posted form; of a repeated field the last. Raises BadInput."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise BadInput("The content type must be application/x-www-form-urlencoded.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise BadInput(f"A form may have at most {MAX_FORM_BYTES:,} bytes.")
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


class Login:
    """The pages in front of the door: where the token is traded for a cookie."""

    def __init__(self, access: Access, pages: Pages, clock: Clock) -> None:
        self._access, self._pages, self._clock = access, pages, clock

    async def show(self, request: Request) -> Response:
        target = _local(request.query_params.get("next", "/"))
        if not self._access.wants_login or self._access.refusal(request, self._clock.now()) is None:
            return RedirectResponse(target, 303)
        return self._pages.answer(request, "login", next=target, fault=None)

    async def enter(self, request: Request) -> Response:
        """Whoever knows the token gets a cookie that tells nothing of it."""
        try:
            form = await read_form(request)
        except BadInput as error:
            return _problem(request, self._pages, 400, str(error))
        target = _local(form.get("next", "/"))
        fault = None
        if self._access.is_elsewhere(request.headers):
            fault = "Please log in from this page."
        elif not self._access.is_token(form.get("token", "").strip()):
            log.warning("Somebody tried to log in to the dashboard with a wrong token.")
            fault = "This is not the value of MOAB_API_TOKEN."
        if fault is not None:
            return self._pages.answer(request, "login", 401, next=target, fault=fault)
        answer = RedirectResponse(target, 303)
        answer.set_cookie(
            COOKIE,
            self._access.cookie(self._clock.now()),
            max_age=int(COOKIE_LASTS.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer


async def leave(_request: Request) -> Response:
    """Forget the cookie in this browser."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _local(target: str) -> str:
    """`target` if it is a path of this site; a login must not lead elsewhere."""
    fine = target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()
    return target if fine else "/"
