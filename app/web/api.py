"""The service's own HTTP API for reading: sessions, runs, health; and the guard in front of all of it."""

import hmac
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.agent.harness import Harness
from app.errors import BadInput, MoabError, NotFound, ServiceUnavailable
from app.sessions import transcript
from app.web.feed import feed

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
GUARDED = "/api/"
STATUS = {NotFound: 404, ServiceUnavailable: 503}


class Runs(Protocol):
    """Where runs are looked up; what the engine at hand knows of them."""

    async def runs(self, limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
        """Newest first: id, function, status, startedAt, endedAt, event, sessionKey."""
        ...

    async def run(self, run_id: str) -> dict[str, Any]:
        """`{"run": …, "steps": […]}`. Raises NotFound."""
        ...


def api_router(harness: Harness, runs: Runs, engine_name: str) -> APIRouter:
    router = APIRouter()

    @router.get("/health")
    async def health() -> dict[str, Any]:
        model = harness.settings.model
        return {"status": "ok", "version": harness.code_version, "model": model, "engine": engine_name}

    @router.get("/api/sessions/{key}/feed")
    async def session_feed(
        request: Request, key: str, after: int = -1, wait: Annotated[float, Query(ge=0, le=600)] = 0
    ) -> dict[str, Any]:
        return await feed(harness, key, after, wait, request.is_disconnected)

    @router.get("/api/sessions/{key}/messages")
    async def session_messages(key: str, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        lines = await harness.db.read(transcript.of_key, key, limit)
        return {"messages": [{"role": role, "text": text, "at": at.isoformat()} for role, text, at in lines]}

    @router.get("/api/runs")
    async def list_runs(
        limit: Annotated[int, Query(ge=1, le=1000)] = 20, status: str | None = None, function: str | None = None
    ) -> dict[str, Any]:
        return {"runs": await runs.runs(limit, status, function)}

    @router.get("/api/runs/{run_id}")
    async def show_run(run_id: str) -> dict[str, Any]:
        return await runs.run(run_id)

    return router


class Guard:
    """ASGI middleware in front of everything: the API needs its token; on loopback without one, only requests that
    no web page can forge are answered. A page in a browser reaches loopback too, but it cannot hide its Origin, and
    a rebound name shows in Host.
    """

    def __init__(self, app: ASGIApp, token: str | None, loopback: bool) -> None:
        self._app, self._token, self._loopback = app, token, loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(GUARDED):
            refusal = _refusal(Request(scope), self._token, self._loopback)
            if refusal is not None:
                answer = JSONResponse({"error": refusal}, 403 if self._token is None else 401)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def explain_errors(app: FastAPI) -> None:
    """Answer our own errors with their sentence, and anything else without a word of what it was."""

    @app.exception_handler(MoabError)
    async def explain(_request: Request, error: Exception) -> Response:
        status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), None)
        return JSONResponse({"error": str(error)}, status or (400 if isinstance(error, BadInput) else 500))

    @app.exception_handler(Exception)
    async def apologise(_request: Request, _error: Exception) -> Response:
        return JSONResponse({"error": "Something went wrong inside; the log says what."}, 500)


def _refusal(request: Request, token: str | None, loopback: bool) -> str | None:
    if token is not None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        same = hmac.compare_digest(given.encode(), token.encode())
        return None if same else "A bearer token is needed: the value of MOAB_API_TOKEN."
    host = (request.url.hostname or "").lower()
    if not loopback or host not in LOOPBACK:
        return "Without MOAB_API_TOKEN the API answers on loopback only."
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].partition(":")[0] not in LOOPBACK:
        return "Pages of other origins may not use the API."
    return None
