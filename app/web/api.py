"""The service's own HTTP API for reading: sessions, runs, health; and the guard in front of all of it."""

import hmac
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.agent.harness import Harness
from app.errors import BadInput, MoabError, NotFound, ServiceUnavailable, fault_of
from app.sessions import transcript, turns
from app.web import conversations
from app.web.approvals import Decided, decide_here, open_approvals
from app.web.calls import calls_router
from app.web.feed import feed
from app.web.learnings import learnings_router
from app.web.state import state_router
from app.web.usage import By, usage_report

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
GUARDED = "/api/"
SDK_PATH = "/api/inngest"
"""Where the SDK's route is with a Dev Server or Inngest; it has a signature instead of the API's token."""

FOREIGN = "Without MOAB_API_TOKEN the API answers on loopback only."
STATUS = {NotFound: 404, ServiceUnavailable: 503}


class Runs(Protocol):
    """Where runs are looked up; what the engine at hand knows of them."""

    async def runs(self, limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
        """Newest first: id, function, status, startedAt, endedAt, event, sessionKey.

        Unless a status or a function is asked for, runs that a schedule started and that went well are left out: there
        is one every minute.
        """
        ...

    async def forget(self, session_keys: Sequence[str], message_keys: Sequence[str]) -> tuple[int, int] | None:
        """End and delete the runs of these sessions and messages: how many went, and how many are open and stay.

        None where the runs are kept elsewhere, out of our reach.
        """
        ...

    async def run(self, run_id: str) -> dict[str, Any]:
        """`{"run": …, "steps": […]}`. Raises NotFound."""
        ...


def api_router(harness: Harness, runs: Runs, engine_name: str) -> APIRouter:
    router = APIRouter()
    router.include_router(state_router(harness))
    router.include_router(learnings_router(harness))
    router.include_router(calls_router(harness))

    @router.get("/health")
    async def health() -> dict[str, Any]:
        model = harness.settings.model
        return {"status": "ok", "version": harness.code_version, "model": model, "engine": engine_name}

    @router.get("/api/sessions")
    async def list_sessions(limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """The open conversations with people, the one spoken in last first."""
        return {"sessions": await harness.db.read(conversations.open_with_people, limit, tuple(harness.channels))}

    @router.get("/api/sessions/{key}/feed")
    async def session_feed(
        request: Request, key: str, after: int = -1, wait: Annotated[float, Query(ge=0, le=600)] = 0
    ) -> dict[str, Any]:
        return await feed(harness, key, after, wait, request.is_disconnected)

    @router.get("/api/sessions/{key}/messages")
    async def session_messages(key: str, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        lines = await harness.db.read(transcript.of_key, key, limit)
        return {"messages": [{"role": role, "text": text, "at": at.isoformat()} for role, text, at in lines]}

    @router.get("/api/approvals")
    async def list_approvals() -> dict[str, Any]:
        return {"approvals": await harness.db.read(open_approvals)}

    @router.post("/api/approvals/{number}")
    async def decide_approval(number: str, decision: Decided) -> dict[str, Any]:
        return await decide_here(harness, number, decision)

    @router.get("/api/usage")
    async def show_usage(by: By = "session", days: Annotated[int, Query(ge=1, le=366)] = 30) -> dict[str, Any]:
        return await usage_report(harness, by, days)

    @router.get("/api/runs")
    async def list_runs(
        limit: Annotated[int, Query(ge=1, le=1000)] = 20, status: str | None = None, function: str | None = None
    ) -> dict[str, Any]:
        found = await runs.runs(limit, status, function)
        left = await harness.db.read(turns.outcomes, [str(run["id"]) for run in found])
        return {"runs": [run | _left_off(left.get(str(run["id"]))) for run in found]}

    @router.get("/api/runs/{run_id}")
    async def show_run(run_id: str) -> dict[str, Any]:
        found = await runs.run(run_id)
        run_id = str(found["run"]["id"])
        left = await harness.db.read(turns.outcomes, [run_id])
        return found | {"run": found["run"] | _left_off(left.get(run_id))}

    return router


def _left_off(turn: tuple[str | None, str | None] | None) -> dict[str, str | None]:
    return {"outcome": turn[0], "summary": turn[1]} if turn is not None else {}


class Guard:
    """ASGI middleware in front of everything: the API needs its token; on loopback without one, only requests that
    no web page can forge are answered. A page in a browser reaches loopback too, but it cannot hide its Origin, and
    a rebound name shows in Host. The SDK checks its signatures itself; unsigned it is for loopback only.
    """

    def __init__(self, app: ASGIApp, token: str | None, loopback: bool, sdk_signed: bool = False) -> None:
        self._app, self._token, self._loopback, self._sdk_signed = app, token, loopback, sdk_signed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" and scope["path"].startswith(GUARDED) else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await JSONResponse({"error": refusal}, 403 if self._token is None else 401)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if scope["path"] == SDK_PATH:
            return None if self._sdk_signed else _foreign(headers)
        if self._token is not None:
            return _without_token(headers, self._token)
        return _foreign(headers) if self._loopback else FOREIGN


def explain_errors(app: FastAPI) -> None:
    """Answer our own errors with their sentence, and anything else without a word of what it was."""

    @app.exception_handler(MoabError)
    async def explain(_request: Request, error: Exception) -> Response:
        status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), None)
        return JSONResponse({"error": str(error)}, status or (400 if isinstance(error, BadInput) else 500))

    @app.exception_handler(RequestValidationError)
    async def refuse(_request: Request, error: Exception) -> Response:
        found = error.errors() if isinstance(error, RequestValidationError) else ()
        faults = (f"{'.'.join(map(str, fault['loc'][1:])) or 'body'}: {fault_of(fault)}" for fault in found)
        return JSONResponse({"error": f"{'; '.join(faults)}."}, 422)

    @app.exception_handler(Exception)
    async def apologise(_request: Request, _error: Exception) -> Response:
        return JSONResponse({"error": "Something went wrong inside; the log says what."}, 500)


def _without_token(headers: Headers, token: str) -> str | None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode()):
        return None
    return "A bearer token is needed: the value of MOAB_API_TOKEN."


def _foreign(headers: Headers) -> str | None:
    if host_name(headers.get("host", "")) not in LOOPBACK:
        return FOREIGN
    origin = headers.get("origin")
    if origin is not None and host_name(origin.partition("://")[2]) not in LOOPBACK:
        return "Pages of other origins may not use the API."
    return None


def host_name(authority: str) -> str:
    """The host of `host:port`, also of `[::1]:port`."""
    name = authority[1:].partition("]")[0] if authority.startswith("[") else authority.partition(":")[0]
    return name.lower()
