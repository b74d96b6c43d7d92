"""A server behind an address, and the recorded functions in a process of their own: ours, or the one at `ENGINE_URL`.

Of the server only routes that the recordings show are used; what the SDK was asked tells our own app.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from tests.engine import recorded
from tests.engine.processes import environment, free_port, process

#: A server elsewhere finds the app where it was the last time.
_APP_PORT = 8011
_START_S = 30.0
_AGAIN_S = 0.1
#: What is wanted must still be so after this time.
_SECOND_LOOK_S = 0.5


def engine_url() -> str:
    """The server that is asked; empty for one of our own."""
    return os.environ.get("ENGINE_URL", "").rstrip("/")


class Address:
    """`http` speaks to the server, `app` to the process with the functions."""

    #: Ids of senders count for a day, and a server may be asked again before.
    session = os.urandom(4).hex()

    def __init__(self, http: httpx.AsyncClient, app: httpx.AsyncClient) -> None:
        self.http, self.app = http, app

    async def send(self, name: str, data: dict[str, Any] | None = None) -> str:
        return await self.send_later(0, lambda now_ms: {"name": name, "data": data or {}})

    async def send_later(self, pause_s: float, event: Callable[[int], dict[str, Any]]) -> str:
        """After a pause, send what an event is by then; its id."""
        await asyncio.sleep(pause_s)
        body = event(round(time.time() * 1000))
        if "id" in body:
            body = {**body, "id": f"{body['id']}-{self.session}"}
        answer = await self.http.post("/e/key", json=body)
        answer.raise_for_status()
        ids: list[str] = answer.json()["ids"]
        return ids[0]

    async def get(self, path: str) -> Any:
        return (await self.http.get(path)).json()

    async def runs(self, event_id: str) -> list[dict[str, Any]]:
        """The runs that an event started, as each is told of by its own route."""
        started = (await self.get(f"/v1/events/{event_id}/runs"))["data"]
        return [(await self.get(f"/v1/runs/{run['run_id']}"))["data"] for run in started]

    async def ends(self, event_ids: list[str]) -> list[Any]:
        """Status and output of their runs, sorted."""
        found = [recorded.end(run) for event_id in event_ids for run in await self.runs(event_id)]
        return sorted(found, key=json.dumps)

    async def calls(self, slug: str) -> list[dict[str, Any]]:
        """The calls of a function that the SDK got."""
        seen = (await self.app.get("/calls")).json()
        return [call for call in seen if call["query"].get("fnId") == slug]

    async def until(self, ask: Callable[[], Awaitable[Any]], wanted: Any, within_s: float = 40.0) -> Any:
        """What `ask` tells as soon as it tells what is wanted (a value, or a test of it), and still does a moment
        later; or the last that it told.
        """
        found, deadline = None, time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = await ask()
            if _is(found, wanted):
                await asyncio.sleep(_SECOND_LOOK_S)
                found = await ask()
                if _is(found, wanted):
                    break
            await asyncio.sleep(_AGAIN_S)
        return found


def _is(found: Any, wanted: Any) -> bool:
    return bool(wanted(found) if callable(wanted) else found == wanted)


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Address]:
    """A server with the recorded functions registered; what ours says goes to `log` in the folder."""
    log = folder / "log"
    url, port = engine_url() or f"http://127.0.0.1:{free_port()}", _APP_PORT if engine_url() else free_port()
    async with contextlib.AsyncExitStack() as stack:
        if not engine_url():
            engine = ("app.cli", "engine", "--port", url.rpartition(":")[2], "--db", str(folder / "engine.db"))
            await stack.enter_async_context(process(*engine, env=environment(), log=log))
        app = ("tests.engine.scenario_app", str(port))
        running = await stack.enter_async_context(process(*app, env=environment(INNGEST_DEV=url), log=log))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30))
        there = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30))
        await _registered(there, url, running)
        yield Address(http, there)


async def _registered(app: httpx.AsyncClient, url: str, running: subprocess.Popen[bytes]) -> None:
    said, deadline = "it did not start", time.monotonic() + _START_S
    while time.monotonic() < deadline and running.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            answer = await app.put("/api/inngest")
            if answer.status_code == 200:
                return
            said = answer.text
        await asyncio.sleep(0.1)
    raise AssertionError(f"The app at {app.base_url} could not register at {url}: {said}")
