"""Apps in other processes: registering over HTTP, being down, large states, signed calls, events sent back."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from app.engine.errors import SyncFailed
from tests.engine import recorded
from tests.engine.lab import EVENT_KEY, Lab, running
from tests.engine.sample_functions import build

_ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RemoteApp:
    """The app of `remote_app.py`, started and killed at will."""

    def __init__(self, engine_url: str, mode: str, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/api/inngest"
        self._arguments = [str(self.port), engine_url, mode, str(log)]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(  # noqa: ASYNC220  returns at once
            [sys.executable, "-m", "tests.engine.remote_app", *self._arguments], cwd=_ROOT, env=environment
        )
        async with httpx.AsyncClient() as client, asyncio.timeout(30):
            while True:
                with contextlib.suppress(httpx.TransportError):
                    await client.get(self.url)
                    return
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


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


@contextlib.asynccontextmanager
async def remote(path: Path, mode: str) -> AsyncIterator[tuple[Lab, RemoteApp]]:
    port = free_port()
    async with running(path / "engine.db", lambda client: build(client)[:1]) as lab, serving(lab, port):
        app = RemoteApp(f"http://127.0.0.1:{port}", mode, path / "log")
        try:
            await app.start()
            await lab.engine.connect(app.url)
            yield lab, app
        finally:
            app.kill()


@pytest.mark.parametrize("mode", ["dev", "production"])
async def test_an_app_elsewhere_is_called_by_http(tmp_path: Path, mode: str) -> None:
    async with remote(tmp_path, mode) as (lab, app):
        run = await lab.run_of(await lab.send("remote/work"))
        assert run.run.output == {"sizes": [10, 10], "é": 1.5e-7}

        app.kill()
        event_id = await lab.send("remote/work")
        down = await lab.run_of(event_id)
        assert down.run.status == "Running"
        assert "Unable to reach" in down.failures[0].error["message"]

        await lab.pass_time(7_200, step_s=600)
        still_down = await lab.run_of(event_id)
        assert (still_down.run.status, {failure.attempt for failure in still_down.failures}) == ("Running", {0})
        assert len(still_down.failures) > 5, "it is tried again and again, and no attempt is used up"

        await app.start()
        await lab.pass_time(7_300, step_s=600)
        up = await lab.run_of(event_id)
        assert (up.run.status, up.run.output["sizes"]) == ("Completed", [10, 10])


async def test_a_large_state_is_fetched_by_the_app(tmp_path: Path) -> None:
    async with remote(tmp_path, "production") as (lab, _):
        run = await lab.run_of(await lab.send("remote/work", {"size": 1_600_000}))

        assert run.run.output["sizes"] == [1_600_000] * 2
    assert (tmp_path / "log").read_text().splitlines() == ["big 0", "big 0"], "two memos over the bound, each made once"


async def test_an_app_that_is_not_there_cannot_be_connected(lab: Lab) -> None:
    with pytest.raises(SyncFailed, match="Unable to reach"):
        await lab.engine.connect(f"http://127.0.0.1:{free_port()}/api/inngest")


async def test_a_mark_serves_once(tmp_path: Path) -> None:
    marks: list[str] = []

    async with running(tmp_path / "engine.db", build) as lab, lab.http(None) as client:
        body = next(line for line in recorded.lines("register") if line.get("path") == "/fn/register")["body"]

        async def register(scope: Any, receive: Any, send: Any) -> None:
            marks.append(scope["query_string"].decode())
            statuses = [(await client.post(f"/fn/register?{marks[0]}", json=body)).status_code for _ in range(2)]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": str(statuses).encode()})

        sdk = httpx.AsyncClient(transport=httpx.ASGITransport(register))
        lab.engine._http_client = sdk
        await lab.engine.connect("http://app.test/api/inngest")
        late = await client.post(f"/fn/register?{marks[0]}", json=body)

    assert marks[0].startswith("deployId=")
    assert late.status_code == 401


async def test_events_sent_by_a_step_come_back_over_http(tmp_path: Path) -> None:
    port = free_port()
    options = {"api_base_url": f"http://127.0.0.1:{port}", "event_api_base_url": f"http://127.0.0.1:{port}"}
    async with running(tmp_path / "engine.db", build, client_options=options) as lab, serving(lab, port):
        await lab.send("rec/sender")
        await lab.pass_time(1)  # the SDK stamps events with the real time, which is ahead of the lab's

        plain, real = recorded.Plain(), recorded.Plain()
        played = [
            plain.exchange(call.query, call.headers, call.body, call.status, call.answer)
            for call in lab.calls_of("rec-sender")
        ]
        assert played == [
            real.exchange(call["query"], call["headers"], call["body"], call["status"], call["resp"])
            for call in recorded.calls("sender")
            if call["query"]["fnId"] == "rec-sender"
        ]
        started = [call.body["event"]["data"] for call in lab.calls_of("rec-no-steps")]
        assert sorted(data["a"] for data in started) == [1, 2]
        async with lab.http(None) as client:
            answer = await client.post(f"/e/{EVENT_KEY}", json=[{"name": "a"}, {"name": "b"}])
        assert len(answer.json()["ids"]) == 2
