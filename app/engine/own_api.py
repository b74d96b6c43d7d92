"""Our own routes beside Inngest's: find runs, see one step by step, repeat it, pause and resume functions."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.engine.clock import from_ms, iso, parse_iso, to_ms
from app.engine.errors import BadRequest
from app.engine.history import EventTrace, FunctionRow, RunRow, RunTrace

Handler = Callable[[Request], Awaitable[Response]]
_MAX_BODY_BYTES = 100_000
_LIMIT = 50
#: How deep JSON is shown.
_DEEPEST = 100


class Server(Protocol):
    """What these routes ask of the engine."""

    async def runs(
        self, limit: int = 50, status: str | None = None, function: str | None = None, event_id: str | None = None,
        before: str | None = None, *, since: datetime | None = None, until: datetime | None = None,
        text: str | None = None,
    ) -> list[RunRow]: ...  # fmt: skip
    async def run(self, run_id: str) -> RunTrace: ...
    async def event(self, event_id: str) -> EventTrace: ...
    async def replay(self, run_id: str, from_step: str | None = None) -> str: ...
    async def functions(self) -> list[FunctionRow]: ...
    async def pause(self, function: str) -> None: ...
    async def resume(self, function: str) -> None: ...


def routes(server: Server, guarded: Callable[[Handler], Handler]) -> list[Route]:
    """The routes, each behind `guarded`."""
    own = _OwnApi(server)
    return [
        Route("/v1/runs", guarded(own.runs), methods=["GET"]),
        Route("/v1/runs/{id}/trace", guarded(own.trace), methods=["GET"]),
        Route("/v1/runs/{id}/replay", guarded(own.replay), methods=["POST"]),
        Route("/v1/events/{id}/trace", guarded(own.event), methods=["GET"]),
        Route("/v1/functions", guarded(own.functions), methods=["GET"]),
        Route("/v1/functions/{id}/pause", guarded(own.pause), methods=["POST"]),
        Route("/v1/functions/{id}/resume", guarded(own.resume), methods=["POST"]),
    ]


class _OwnApi:
    def __init__(self, server: Server) -> None:
        self._server = server

    async def runs(self, request: Request) -> Response:
        asked = request.query_params
        limit = _number(asked.get("limit"))
        found = await self._server.runs(
            limit=limit, status=asked.get("status"), function=asked.get("function"), event_id=asked.get("event"),
            before=asked.get("before"), since=moment_of(asked, "since"), until=moment_of(asked, "until"),
            text=asked.get("text"),
        )  # fmt: skip
        before = found[-1].id if len(found) == limit else None
        return JSONResponse({"data": _plain(found), "metadata": {"before": before}})

    async def trace(self, request: Request) -> Response:
        return JSONResponse({"data": _plain(await self._server.run(request.path_params["id"]))})

    async def event(self, request: Request) -> Response:
        return JSONResponse({"data": _plain(await self._server.event(request.path_params["id"]))})

    async def replay(self, request: Request) -> Response:
        body = await json_body(request)
        step = body.get("fromStep") if isinstance(body, dict) else None
        if step is not None and not isinstance(step, str):
            raise BadRequest("fromStep must be a step's id or name")
        run_id = await self._server.replay(request.path_params["id"], step)
        return JSONResponse({"data": {"run_id": run_id}})

    async def functions(self, request: Request) -> Response:
        return JSONResponse({"data": _plain(await self._server.functions())})

    async def pause(self, request: Request) -> Response:
        await self._server.pause(request.path_params["id"])
        return JSONResponse({"data": {"paused": True}})

    async def resume(self, request: Request) -> Response:
        await self._server.resume(request.path_params["id"])
        return JSONResponse({"data": {"paused": False}})


async def json_body(request: Request) -> Any:
    """A small JSON body; nothing is an empty object. Raises BadRequest."""
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > _MAX_BODY_BYTES:
            raise BadRequest(f"A request here may have at most {_MAX_BODY_BYTES} bytes")
    try:
        return json.loads(raw) if raw.strip() else {}
    except (ValueError, RecursionError):
        raise BadRequest("The request's body is not JSON") from None


def _number(text: str | None) -> int:
    if text is None:
        return _LIMIT
    if not re.fullmatch(r"[0-9]{1,4}", text) or not 1 <= int(text) <= 1_000:
        raise BadRequest("limit must be a number from 1 to 1000")
    return int(text)


def moment_of(asked: Mapping[str, str], field: str) -> datetime | None:
    """A moment that a query names; None without it. Raises BadRequest."""
    if field not in asked:
        return None
    moment_ms = parse_iso(asked[field])
    if moment_ms is None:
        raise BadRequest(f"{field} must be a moment such as 2026-11-30T16:43:00Z")
    return from_ms(moment_ms)


def _plain(value: Any, depth: int = 0) -> Any:
    """Rows as JSON, with moments as text; what is nested deeper than anybody can read is left out."""
    if depth > _DEEPEST:
        return "(nested too deeply to be shown)"
    if isinstance(value, datetime):
        return iso(to_ms(value))
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), depth + 1) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    return [_plain(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value
