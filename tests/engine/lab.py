"""A running engine for tests: the real SDK on a private app, a manual clock, and a record of every call."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastapi
import httpx
import inngest
import inngest.fast_api
import uvicorn

from app.clock import ManualClock
from app.engine.engine import SYNC_PATH, Engine
from app.engine.history import RunRow, RunTrace
from app.engine.signing import new_signing_key
from tests.engine.recorder import Call, Recorder

EVENT_KEY = "event-key"
SIGNING_KEY = "signkey-test-" + "ab" * 32
Builder = Callable[[inngest.Inngest], list[inngest.Function[Any]]]


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


@contextlib.asynccontextmanager
async def serving(lab: Lab, port: int) -> AsyncIterator[None]:
    """The engine's public API on a real port."""
    server = uvicorn.Server(uvicorn.Config(lab.engine.api, host="127.0.0.1", port=port, log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  uvicorn has no event to wait for
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        await task
