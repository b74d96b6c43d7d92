"""The public HTTP API: events in, registrations in, runs out. Everything but `/health` needs a key."""

import json
import logging
import re
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.engine import own_api, rest
from app.engine.access import Access, Caller
from app.engine.clock import to_ms
from app.engine.errors import (
    BadEvent,
    BadExpression,
    BadRequest,
    EngineError,
    EngineStopped,
    StoreFailed,
    Unauthorized,
    UnknownEvent,
    UnknownFunction,
    UnknownRun,
    UnknownStep,
)
from app.engine.events import parse_body
from app.engine.ids import app_uuid
from app.engine.own_api import Handler, json_body, moment_of
from app.engine.store import Store

log = logging.getLogger("moab.engine")
MAX_BODY_BYTES = 8_000_000
_NO_APP = "No app is registered yet: start one with INNGEST_DEV set to this address, or name it with --sdk-url."
_ABOUT = """\
Moab's engine, alone, in the place of an Inngest Dev Server.

{known}

What there is to see (docs/engine.md has the rest):
  GET  /dev                  functions
  GET  /v1/runs              runs, newest first; ?status= &function= &text= &since= &limit=
  GET  /v1/runs/<id>/trace   one run: its event, its steps, its failed attempts
  GET  /v1/events            events
  POST /e/<any key>          send events: {{"name": "...", "data": {{}}}}
There is no dashboard here: that is a part of the agent's own service (moab serve).
"""


class Server(own_api.Server, Protocol):
    """What the API asks of the engine."""

    @property
    def healthy(self) -> bool: ...
    @property
    def store(self) -> Store: ...
    @property
    def registry(self) -> Any: ...
    def now_ms(self) -> int: ...
    async def send(self, events: Any, seed: str | None = None) -> list[str]: ...
    async def cancel(self, run_id: str) -> None: ...
    async def cancel_many(self, body: Any) -> dict[str, Any]: ...
    async def register(self, body: bytes, mark: str, authorization: str, *, trusted: bool = False) -> bool: ...


class Api:
    """A Starlette application over a Server; mount it where the SDKs look for their server (usually `/`)."""

    def __init__(self, server: Server, access: Access) -> None:
        self._server = server
        self._access = access
        guarded = self._guarded
        self.app = Starlette(
            exception_handlers={404: _no_route, 405: _no_route},
            routes=[
                Route("/health", self._health, methods=["GET"]),
                Route("/dev", self._dev if access.dev else guarded(self._dev), methods=["GET"]),
                Route("/e/{key}", self._events_in, methods=["POST"]),
                Route("/fn/register", self._register, methods=["POST", "PUT"]),
                Route("/v1/events", guarded(self._events), methods=["GET"]),
                Route("/v1/events/{id}", guarded(self._event), methods=["GET"]),
                Route("/v1/events/{id}/runs", guarded(self._event_runs), methods=["GET"]),
                Route("/v1/runs/{id}", guarded(self._run), methods=["GET"]),
                Route("/v1/runs/{id}", guarded(self._cancel), methods=["DELETE"]),
                Route("/v1/cancellations", guarded(self._cancellations), methods=["GET"]),
                Route("/v1/cancellations", guarded(self._cancel_many), methods=["POST"]),
                Route("/v1/cancellations/{id}", guarded(self._forget_cancellation), methods=["DELETE"]),
                Route("/v0/runs/{id}/actions", guarded(self._actions), methods=["GET"]),
                Route("/v0/runs/{id}/batch", guarded(self._batch), methods=["GET"]),
                *own_api.routes(server, guarded),
                *([Route("/", self._about, methods=["GET"])] if access.dev else []),
            ],
        )

    def _guarded(self, handler: Handler) -> Handler:
        """Only for those who may steer; errors of the engine become sentences."""

        async def guarded(request: Request) -> Response:
            if not self._access.may_steer(_caller(request)):
                return _error(401, "This route needs the engine's signing key as a bearer token.")
            try:
                return await handler(request)
            except EngineError as error:
                return _error(_status(error), str(error))

        return guarded

    async def _about(self, request: Request) -> Response:
        """For whoever opens a development server's address in a browser."""
        functions = self._server.registry.active()
        apps = sorted({function.app for function in functions})
        known = f"Registered functions: {len(functions)}, of {', '.join(apps)}." if apps else _NO_APP
        return PlainTextResponse(_ABOUT.format(known=known))

    async def _health(self, request: Request) -> Response:
        if self._server.healthy:
            return JSONResponse({"status": 200, "message": "OK"})
        return _error(503, "The engine is not running.")

    async def _events_in(self, request: Request) -> Response:
        if not self._access.may_send(request.path_params["key"], _caller(request)):
            return _refused(401, "This is not the engine's event key.")
        body = await _body(request)
        if body is None:
            return _refused(413, f"A request may have at most {MAX_BODY_BYTES} bytes.")
        try:
            ids = await self._server.send(parse_body(body), request.headers.get("x-inngest-event-id-seed"))
        except EngineError as error:
            return _refused(_status(error), str(error))
        return JSONResponse({"ids": ids or [""], "status": 200})

    async def _register(self, request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _error(413, f"A request may have at most {MAX_BODY_BYTES} bytes.")
        mark, trusted = request.query_params.get("deployId", ""), self._access.is_trusted(_caller(request))
        try:
            modified = await self._server.register(
                body, mark, request.headers.get("authorization", ""), trusted=trusted
            )
        except EngineError as error:
            return _error(_status(error), str(error))
        name = json.loads(body)["appname"]
        return JSONResponse({"ok": True, "modified": modified, "sync_id": app_uuid(name), "app_id": app_uuid(name)})

    async def _dev(self, request: Request) -> Response:
        registry = self._server.registry
        functions = [rest.function(function) for function in sorted(registry.active(), key=lambda item: item.slug)]
        return JSONResponse(rest.dev(functions, authed=not self._access.dev))

    async def _events(self, request: Request) -> Response:
        asked = request.query_params
        wanted = asked.get("limit", "20")
        limit = min(int(wanted), 100) if re.fullmatch(r"[0-9]{1,6}", wanted) else 20
        after, before = moment_of(asked, "received_after"), moment_of(asked, "received_before")
        found = await rest.events(
            self._server.store, limit, asked.get("name"), after_ms=to_ms(after) if after else None,
            before_ms=to_ms(before) if before else None, cursor=asked.get("cursor"),
        )  # fmt: skip
        return self._data(found, cached_ms=None)

    async def _event(self, request: Request) -> Response:
        found = await rest.event(self._server.store, request.path_params["id"])
        return _error(404, "There is no such event.") if found is None else self._data(found)

    async def _event_runs(self, request: Request) -> Response:
        found = await rest.event_runs(self._server.store, self._server.registry, request.path_params["id"])
        return self._data(found, cached_ms=15_000)

    async def _run(self, request: Request) -> Response:
        return self._data(await rest.run(self._server.store, self._server.registry, request.path_params["id"]))

    async def _cancel(self, request: Request) -> Response:
        await self._server.cancel(request.path_params["id"])
        return Response(status_code=200)

    async def _cancellations(self, request: Request) -> Response:
        return self._data(await rest.cancellations(self._server.store), cached_ms=None)

    async def _cancel_many(self, request: Request) -> Response:
        return self._data(await self._server.cancel_many(await json_body(request)), cached_ms=None)

    async def _forget_cancellation(self, request: Request) -> Response:
        if not await rest.forget_cancellation(self._server.store, request.path_params["id"]):
            return _error(404, "Cancellation not found")
        return self._data({"ok": True}, cached_ms=None)

    async def _actions(self, request: Request) -> Response:
        memos = await rest.actions(self._server.store, request.path_params["id"])
        return Response(memos, media_type="application/json")

    async def _batch(self, request: Request) -> Response:
        events = await rest.batch(self._server.store, request.path_params["id"])
        return Response(events, media_type="application/json")

    def _data(self, data: Any, *, cached_ms: int | None = 3_000) -> Response:
        return JSONResponse({"data": data, "metadata": rest.metadata(self._server.now_ms(), cached_ms)})


async def _no_route(request: Request, error: Exception) -> Response:
    """Nothing is at this address, or not for this method."""
    found = _error(404, f"There is no route {request.url.path[:200]} for {request.method}.")
    if isinstance(error, HTTPException) and error.status_code == 405:
        found = _error(405, f"The route {request.url.path[:200]} is not for {request.method}.")
        found.headers.update(error.headers or {})
    return found


def _caller(request: Request) -> Caller:
    return Caller(request.client.host if request.client else "", request.headers)


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
    for status, kinds in _STATUS.items():
        if isinstance(error, kinds):
            return status
    return 422


_STATUS: dict[int, tuple[type[EngineError], ...]] = {
    400: (BadEvent, BadRequest, BadExpression),
    401: (Unauthorized,),
    404: (UnknownRun, UnknownEvent, UnknownFunction, UnknownStep),
    503: (EngineStopped, StoreFailed),
}


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"ids": [""], "status": status, "error": sentence}, status_code=status)


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence, "data": None, "status": status}, status_code=status)
