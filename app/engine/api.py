"""The public HTTP API: events in, registrations in, runs out. Everything but `/health` needs a key."""

import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.engine import rest
from app.engine.errors import BadEvent, EngineError, EngineStopped, StoreFailed, Unauthorized, UnknownRun
from app.engine.events import parse_body
from app.engine.ids import app_uuid
from app.engine.store import Store
from app.engine.sync import is_bearer

log = logging.getLogger("moab.engine")
MAX_BODY_BYTES = 8_000_000


class Server(Protocol):
    """What the API asks of the engine."""

    @property
    def healthy(self) -> bool: ...
    @property
    def store(self) -> Store: ...
    @property
    def registry(self) -> Any: ...
    def now_ms(self) -> int: ...
    async def send(self, events: Any) -> list[str]: ...
    async def cancel(self, run_id: str) -> None: ...
    async def register(self, body: bytes, mark: str, authorization: str) -> bool: ...


class Api:
    """A Starlette application over a Server; mount it where the SDKs look for their server (usually `/`)."""

    def __init__(self, server: Server, event_key: str, signing_key: str | None, *, dev: bool = False) -> None:
        self._server = server
        self._event_key = event_key
        self._signing_key = signing_key
        self.app = Starlette(
            routes=[
                Route("/health", self._health, methods=["GET"]),
                Route("/dev", self._guarded(self._dev), methods=["GET"]),
                Route("/e/{key}", self._events_in, methods=["POST"]),
                Route("/fn/register", self._register, methods=["POST", "PUT"]),
                Route("/v1/events", self._guarded(self._events), methods=["GET"]),
                Route("/v1/events/{id}", self._guarded(self._event), methods=["GET"]),
                Route("/v1/events/{id}/runs", self._guarded(self._event_runs), methods=["GET"]),
                Route("/v1/runs/{id}", self._guarded(self._run), methods=["GET"]),
                Route("/v1/runs/{id}", self._guarded(self._cancel), methods=["DELETE"]),
                Route("/v0/runs/{id}/actions", self._guarded(self._actions), methods=["GET"]),
                Route("/v0/runs/{id}/batch", self._guarded(self._batch), methods=["GET"]),
            ]
        )

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Only with the signing key as bearer token; errors of the engine become sentences."""

        async def guarded(request: Request) -> Response:
            if not is_bearer(request.headers.get("authorization", ""), self._signing_key):
                return _error(401, "This route needs the engine's signing key as a bearer token.")
            try:
                return await handler(request)
            except EngineError as error:
                return _error(_status(error), str(error))

        return guarded

    async def _health(self, request: Request) -> Response:
        if self._server.healthy:
            return JSONResponse({"status": 200, "message": "OK"})
        return _error(503, "The engine is not running.")

    async def _events_in(self, request: Request) -> Response:
        if not hmac.compare_digest(request.path_params["key"].encode(), self._event_key.encode()):
            return _refused(401, "This is not the engine's event key.")
        body = await _body(request)
        if body is None:
            return _refused(413, f"A request may have at most {MAX_BODY_BYTES} bytes.")
        try:
            ids = await self._server.send(parse_body(body))
        except EngineError as error:
            return _refused(_status(error), str(error))
        return JSONResponse({"ids": ids or [""], "status": 200})

    async def _register(self, request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _error(413, f"A request may have at most {MAX_BODY_BYTES} bytes.")
        mark = request.query_params.get("deployId", "")
        try:
            modified = await self._server.register(body, mark, request.headers.get("authorization", ""))
        except EngineError as error:
            return _error(_status(error), str(error))
        name = json.loads(body)["appname"]
        return JSONResponse({"ok": True, "modified": modified, "sync_id": app_uuid(name), "app_id": app_uuid(name)})

    async def _dev(self, request: Request) -> Response:
        registry = self._server.registry
        functions = [rest.function(function) for function in sorted(registry.active(), key=lambda item: item.slug)]
        return JSONResponse({"version": "moab", "authed": True, "functions": functions})

    async def _events(self, request: Request) -> Response:
        wanted = request.query_params.get("limit", "20")
        limit = min(int(wanted), 100) if wanted.isdigit() else 20
        found = await rest.events(self._server.store, limit, request.query_params.get("name"))
        return self._data(found)

    async def _event(self, request: Request) -> Response:
        found = await rest.event(self._server.store, request.path_params["id"])
        return _error(404, "There is no such event.") if found is None else self._data(found)

    async def _event_runs(self, request: Request) -> Response:
        return self._data(await rest.event_runs(self._server.store, self._server.registry, request.path_params["id"]))

    async def _run(self, request: Request) -> Response:
        return self._data(await rest.run(self._server.store, self._server.registry, request.path_params["id"]))

    async def _cancel(self, request: Request) -> Response:
        await self._server.cancel(request.path_params["id"])
        return Response(status_code=200)

    async def _actions(self, request: Request) -> Response:
        memos = await rest.actions(self._server.store, request.path_params["id"])
        return Response(memos, media_type="application/json")

    async def _batch(self, request: Request) -> Response:
        events = await rest.batch(self._server.store, request.path_params["id"])
        return Response(events, media_type="application/json")

    def _data(self, data: Any) -> Response:
        return JSONResponse({"data": data, "metadata": rest.metadata(self._server.now_ms())})


async def _body(request: Request) -> bytes | None:
    """The request's body, or None when it is too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)


def _status(error: EngineError) -> int:
    if isinstance(error, EngineStopped | StoreFailed):
        return 503
    if isinstance(error, UnknownRun | Unauthorized):
        return 404 if isinstance(error, UnknownRun) else 401
    return 400 if isinstance(error, BadEvent) else 422


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"ids": [""], "status": status, "error": sentence}, status_code=status)


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence, "data": None, "status": status}, status_code=status)
