"""Apps in other processes: registering over HTTP, being down, large states, signed calls, events sent back."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.engine.errors import SyncFailed
from tests.engine import recorded
from tests.engine.lab import Lab, running, serving
from tests.engine.processes import ROOT, environment, free_port
from tests.engine.sample_functions import build


class RemoteApp:
    """The app of `remote_app.py`, started and killed at will."""

    def __init__(self, engine_url: str, mode: str, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/api/inngest"
        self._arguments = [str(self.port), engine_url, mode, str(log)]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: ASYNC220  returns at once
            [sys.executable, "-m", "tests.engine.remote_app", *self._arguments], cwd=ROOT, env=environment()
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
