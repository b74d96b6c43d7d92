"""Live updates over a real service: what is told, to how many, and that nothing holds up the shutdown."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.config import Settings
from app.main import _listen
from app.notify import Notifier
from app.web import live
from tests.browser.served import Served, serving

COMMAND = {"message": "/status", "sessionKey": "http:one"}


@pytest.fixture
def home(tmp_path: Path, clean_environment: None) -> Path:
    return tmp_path / "home"


@asynccontextmanager
async def stream(served: Served, **query: str) -> AsyncIterator[AsyncIterator[str]]:
    """The lines of a stream that is open for sure."""
    async with served.http.stream("GET", "/live", params=query) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 2000"
        yield lines


async def told(lines: AsyncIterator[str]) -> Any:
    """The next message."""
    async with asyncio.timeout(10):
        async for line in lines:
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream ended")


async def test_a_stream_tells_which_runs_change(home: Path) -> None:
    async with serving(home) as served, stream(served) as lines:
        await served.http.post("/api/messages", json=COMMAND)
        changed = await told(lines)
        runs = (await served.http.get("/api/runs")).json()["runs"]
        assert set(changed["runs"]) <= {run["id"] for run in runs}


async def test_a_stream_of_a_session_tells_only_of_it(home: Path) -> None:
    async with serving(home) as served, stream(served, session="http:one") as lines:
        served.service.harness.notifier.publish("http:two")
        served.service.harness.notifier.publish("http:one")
        assert await told(lines) == {"session": "http:one"}


async def test_with_much_changed_a_message_stays_small(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MANY", 3)
    async with serving(home) as served, stream(served) as lines:
        desk = served.service.engine.desk
        assert desk is not None
        await asyncio.gather(*(desk.send("agent.wake.due", {"n": n}) for n in range(10)))
        assert await told(lines) == {"runs": None}


async def test_there_are_only_so_many_streams_and_a_closed_one_makes_room(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 2)
    monkeypatch.setattr(live, "LOOK_EVERY_S", 0.05)
    async with serving(home) as served, stream(served, session="a"):
        async with stream(served):
            refused = await served.http.get("/live")
            assert refused.status_code == 503
            assert refused.text == "There are too many live pages; close some."
        async with asyncio.timeout(10):
            while True:
                async with served.http.stream("GET", "/live") as answer:
                    if answer.status_code == 200:
                        break


@pytest.mark.parametrize("query", [{}, {"session": "http:one"}])
async def test_an_open_stream_ends_at_shutdown_and_does_not_delay_it(home: Path, query: dict[str, str]) -> None:
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(trust_env=False) as other:
        async with serving(home) as served:
            reading = asyncio.create_task(read_all(other, f"{served.url}/live", query))
            async with asyncio.timeout(10):
                while not served.service.harness.notifier._waiting:  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.01)
            begun = loop.time()
        assert loop.time() - begun < 5
        assert (await reading).startswith("retry: 2000")


async def read_all(http: httpx.AsyncClient, url: str, query: dict[str, str]) -> str:
    return (await http.get(url, params=query, timeout=30)).text


async def test_the_other_routes_are_where_they_were(home: Path) -> None:
    async with serving(home) as served:
        assert (await served.http.get("/health")).json()["engine"] == "embedded"
        assert (await served.http.get("/dev")).status_code == 401
        assert (await served.http.get("/v1/events")).status_code == 401
        assert (await served.http.post("/e/wrong", json={"name": "a"})).status_code == 401
        assert (await served.http.put("/fn/register", json={})).status_code >= 400
        assert (await served.http.get("/api/runs")).status_code == 200
        assert (await served.http.get("/nothing")).json() == {"error": "There is nothing at /nothing."}
        page = await served.http.get("/nothing", headers={"accept": "text/html"})
        assert (page.status_code, "Not found" in page.text) == (404, True)
        assert (await served.http.get("/api/runs?status=bogus")).status_code == 400
        page = await served.http.get("/?status=bogus")
        assert page.status_code == 400
        assert "accepted are Scheduled, Running, Completed, Failed, Cancelled" in page.text


def test_answers_do_not_wait_for_more_to_send(home: Path) -> None:
    """asyncio sets TCP_NODELAY only on sockets that say that they are TCP."""
    with _listen(Settings(_env_file=None, moab_home=home), 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


async def test_what_changes_while_a_reader_is_told_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "GATHER_S", 0)
    notifier = Notifier()
    looks = live.Live(None, notifier)._session("http:garden")
    first = asyncio.ensure_future(anext(looks))
    for _ in range(3):  # until the reader waits
        await asyncio.sleep(0)
    notifier.publish("http:garden")
    assert await first == {"session": "http:garden"}
    await asyncio.sleep(0)  # the message goes out
    notifier.publish("http:garden")
    assert await anext(looks) == {"session": "http:garden"}
    await looks.aclose()
