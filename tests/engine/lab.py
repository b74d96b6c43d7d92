"""A running engine for tests: the real SDK on a private app, a manual clock, and a record of every call."""

import contextlib
import functools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import fastapi
import httpx
import inngest
import inngest.fast_api

from app.clock import ManualClock
from app.engine.engine import SYNC_PATH, Engine
from app.engine.history import RunRow, RunTrace
from app.engine.signing import new_signing_key

EVENT_KEY = "event-key"
SIGNING_KEY = "signkey-test-" + "ab" * 32
Builder = Callable[[inngest.Inngest], list[inngest.Function[Any]]]


@dataclass
class Call:
    """One request to the SDK and its answer."""

    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    status: int = 0
    answer: Any = None
    answer_headers: dict[str, str] = field(default_factory=dict)


class Recorder:
    """An ASGI wrapper that keeps every call it passes on."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.calls: list[Call] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, message = b"", {"more_body": True}
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        message = {"type": "http.request", "body": body, "more_body": False}
        call = Call(
            dict(parse_qsl(scope["query_string"].decode())),
            {name.decode(): value.decode() for name, value in scope["headers"]},
            json.loads(message["body"]),
        )
        self.calls.append(call)
        parts: list[bytes] = []

        async def again() -> Any:
            return message

        async def keep(answer: Any) -> None:
            if answer["type"] == "http.response.start":
                call.status = answer["status"]
                call.answer_headers = {name.decode(): value.decode() for name, value in answer["headers"]}
            else:
                parts.append(answer.get("body", b""))
                with contextlib.suppress(ValueError):
                    call.answer = json.loads(b"".join(parts))
            await send(answer)

        await self._app(scope, again, keep)


@functools.cache
def _served(build: Builder, **client_options: Any) -> tuple[fastapi.FastAPI, str]:
    key = new_signing_key()
    client = inngest.Inngest(app_id="rec", is_production=False, event_key=EVENT_KEY, **client_options)
    syncer = inngest.Inngest(app_id="rec", is_production=True, event_key=EVENT_KEY, signing_key=key)
    functions = build(client)
    app = fastapi.FastAPI()
    inngest.fast_api.serve(app, client, functions)
    inngest.fast_api.serve(app, syncer, functions, serve_path=SYNC_PATH)
    return app, key


def private_app(build: Builder, **client_options: Any) -> tuple[Recorder, str]:
    """The SDK served twice, as a composition root does it; returns the app and its sync key."""
    app, key = _served(build, **client_options)
    return Recorder(app), key


class Lab:
    """An engine, its clock and its app. The clock starts at the real time, which the SDK reads for sleeps."""

    def __init__(self, path: Path, build: Builder, clock: ManualClock | None = None, **options: Any) -> None:
        client_options = options.pop("client_options", {})
        self.clock = clock or ManualClock(datetime.now(UTC))
        self.app, self._key = private_app(build, **client_options)
        self.engine = Engine(path, self.clock, EVENT_KEY, SIGNING_KEY, **{"jitter": lambda: 0.3, **options})

    async def start(self) -> None:
        await self.engine.start()
        await self.engine.attach(self.app, signing_key=self._key)

    async def send(self, name: str, data: Any = None, **fields: Any) -> str:
        """Send one event and let everything happen that happens at once; returns its id."""
        ids = await self.engine.send([{"name": name, "data": data or {}, **fields}])
        await self.engine.idle()
        return ids[0]

    async def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        """Let time pass in steps, and everything happen in it."""
        while seconds > 0:
            self.clock.advance(min(step_s, seconds))
            seconds -= step_s
            await self.engine.idle()

    async def run_of(self, event_id: str) -> RunTrace:
        """The one run that an event started."""
        (row,) = await self.engine.runs(event_id=event_id)
        return await self.engine.run(row.id)

    async def runs_of(self, function: str) -> list[RunRow]:
        """All runs of a function, oldest first."""
        return list(reversed(await self.engine.runs(function=function, limit=1000)))

    def calls_of(self, *slugs: str) -> list[Call]:
        return [call for call in self.app.calls if call.query["fnId"] in slugs]

    def http(self, key: str | None = SIGNING_KEY) -> httpx.AsyncClient:
        """A client of the public API."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(self.engine.api), base_url="http://engine.test", headers=headers
        )


@contextlib.asynccontextmanager
async def running(path: Path, build: Builder, **options: Any) -> AsyncIterator[Lab]:
    """A lab from start to stop."""
    lab = Lab(path, build, **options)
    await lab.start()
    try:
        yield lab
    finally:
        await lab.engine.stop(grace_s=0)
