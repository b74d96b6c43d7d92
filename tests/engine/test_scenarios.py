"""The recorded scenarios against a server behind an address, with real time and real processes.

Without `ENGINE_URL` a server of ours is started; with it (`ENGINE_URL=http://127.0.0.1:8288`) any other one is asked,
such as Inngest's Dev Server. Only what such a server tells by HTTP is compared: how runs end, and how many there are.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine import recorded
from tests.engine.test_other_process import free_port
from tests.engine.test_server import _environment, process

#: They end within seconds; those of the recordings that wait for retries of half a minute are played on a manual clock.
_SCENARIOS = (
    "no-steps", "two-steps", "fn-fail", "non-retriable", "retry-after", "sleepy", "waiter", "caller", "parallel",
    "sender", "single-cancel", "cancel-me", "event-id-dedupe", "future-ts", "batched", "debounced", "limited",
)  # fmt: skip
#: A real server loses starts of a burst (it was measured to); ours gives each its run.
_LOSSY = ("single-cancel",)
_WITHIN_S = 40.0


class Server:
    """A server behind an address."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def send(self, event: dict[str, Any]) -> str:
        answer = await self._http.post("/e/key", json=event)
        answer.raise_for_status()
        ids: list[str] = answer.json()["ids"]
        return ids[0]

    async def ends(self, event_ids: list[str]) -> list[Any]:
        """How the runs that these events started have ended, without ids and moments."""
        found = []
        for event_id in event_ids:
            for run in (await self._http.get(f"/v1/events/{event_id}/runs")).json()["data"]:
                told = (await self._http.get(f"/v1/runs/{run['run_id']}")).json()["data"]
                found.append(_end(told))
        return sorted(found, key=json.dumps)


def _end(run: dict[str, Any]) -> Any:
    output = recorded.Plain().value(run.get("output"))
    if isinstance(output, list):  # the order in which a server takes in a burst is its own
        output = sorted(output, key=json.dumps)
    return [run["status"], output]


#: The recording asked before the end.
_KNOWN_ENDS = {"cancel-me": [["Cancelled", {}]]}


def expected(scenario: str) -> list[Any]:
    if scenario in _KNOWN_ENDS:
        return _KNOWN_ENDS[scenario]
    ends = {line["path"]: line["resp"]["data"] for line in recorded.lines(scenario)
            if line.get("path", "").startswith("/v1/runs/")}  # fmt: skip
    return sorted((_end(run) for run in ends.values()), key=json.dumps)


async def play(server: Server, scenario: str) -> tuple[list[Any], list[Any]]:
    """Send what was sent, at the same distances in time, until the runs have ended as recorded or time is up."""
    sends, ids = recorded.sends(scenario), []
    before = sends[0]["t"]
    for send in sends:
        await asyncio.sleep(send["t"] - before)
        before, event = send["t"], dict(send["body"])
        if "ts" in event:
            event["ts"] = round(time.time() * 1000) + event["ts"] - int(send["t"] * 1000)
        if "id" in event:
            event["id"] = f"{event['id']}-{_RUN_ID}"
        ids.append(await server.send(event))
    wanted, found = expected(scenario), list[Any]()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_WITHIN_S):
            while found != wanted and not (scenario in _LOSSY and _are_over(found)):
                await asyncio.sleep(0.1)
                found = await server.ends(ids)
    return found, wanted


_RUN_ID = os.urandom(4).hex()


def _are_over(ends: list[Any]) -> bool:
    return bool(ends) and all(status in ("Completed", "Cancelled") for status, _ in ends)


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Server]:
    """A server with the recorded functions registered: the one at `ENGINE_URL`, or ours."""
    url = os.environ.get("ENGINE_URL", "").rstrip("/") or f"http://127.0.0.1:{free_port()}"
    port, log = free_port(), folder / "log"
    async with contextlib.AsyncExitStack() as stack:
        if not os.environ.get("ENGINE_URL"):
            engine = ("app.cli", "engine", "--port", url.rpartition(":")[2], "--db", str(folder / "engine.db"))
            await stack.enter_async_context(process(*engine, env=_environment(), log=log))
        app = ("tests.engine.scenario_app", str(port))
        await stack.enter_async_context(process(*app, env=_environment(INNGEST_DEV=url), log=log))
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30))
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    registered = await http.put(f"http://127.0.0.1:{port}/api/inngest")
                    if registered.status_code == 200:
                        break
                await asyncio.sleep(0.05)
        yield Server(http)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Any], list[Any]]]:
    """All scenarios at the same time: they use different functions."""

    async def play_all() -> dict[str, tuple[list[Any], list[Any]]]:
        async with served(tmp_path_factory.mktemp("scenarios")) as server:
            results = await asyncio.gather(*(play(server, scenario) for scenario in _SCENARIOS))
        return dict(zip(_SCENARIOS, results, strict=True))

    return asyncio.run(play_all())


@pytest.mark.parametrize("scenario", [name for name in _SCENARIOS if name not in _LOSSY])
def test_runs_end_as_recorded(played: dict[str, Any], scenario: str) -> None:
    found, wanted = played[scenario]

    assert found == wanted


def test_a_singleton_leaves_none_open(played: dict[str, Any]) -> None:
    found, _ = played["single-cancel"]

    assert "Completed" in {status for status, _ in found}
    assert {status for status, _ in found} <= {"Completed", "Cancelled"}
