"""The engine alone, as a Dev Server: a third party's program runs on it unchanged, both as real processes."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import inngest
import pytest

from app.clock import ManualClock
from app.engine.access import Access, Caller
from app.engine.engine import Engine
from app.engine.errors import AddressTaken
from app.engine.server import serve
from tests.engine.lab import running
from tests.engine.processes import ROOT, environment, free_port, process
from tests.engine.sample_functions import build


async def _eventually(ask: Callable[[], Any], log: Path) -> Any:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(httpx.TransportError):
                if found := await ask():
                    return found
            await asyncio.sleep(0.02)


class Shop:
    """The two processes and what a person does with them."""

    def __init__(self, http: httpx.AsyncClient, log: Path) -> None:
        self.http, self.log = http, log

    async def send(self, name: str, **data: Any) -> str:
        answer = await self.http.post("/e/any-key-at-all", json={"name": name, "data": data})
        ids: list[str] = answer.json()["ids"]
        return ids[0]

    async def output(self, event_id: str) -> Any:
        async def ended() -> Any:
            runs = (await self.http.get(f"/v1/events/{event_id}/runs")).json()["data"]
            return [run["output"] for run in runs if run["status"] == "Completed"]

        return (await _eventually(ended, self.log))[0]

    async def functions(self) -> list[str]:
        async def found() -> list[str]:
            return [function["slug"] for function in (await self.http.get("/dev")).json()["functions"]]

        slugs: list[str] = await _eventually(found, self.log)
        return slugs

    async def output_of(self, function: str) -> Any:
        async def ended() -> Any:
            query = {"function": function, "status": "Completed"}
            return (await self.http.get("/v1/runs", params=query)).json()["data"]

        return (await _eventually(ended, self.log))[0]["output"]


async def test_a_third_partys_program_runs_unchanged(tmp_path: Path) -> None:
    port, app_port, log, db = free_port(), free_port(), tmp_path / "log", tmp_path / "engine.db"
    url, app_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{app_port}/api/inngest"
    engine = ("app.cli", "engine", "--port", str(port), "--db", str(db), "-u", app_url)
    program = ("uvicorn", "examples.third_party:app", "--port", str(app_port), "--log-level", "warning")
    async with (
        process(*program, env=environment(INNGEST_DEV=url), log=log),
        httpx.AsyncClient(base_url=url, timeout=10) as http,
    ):
        shop = Shop(http, log)
        async with process(*engine, env=environment(), log=log) as alone:
            assert await shop.functions() == ["shop-count-sales", "shop-handle-order", "shop-make-invoice"]
            orders = [await shop.send("shop/order.placed", order=f"o-{n}", items=[n, 3]) for n in (1, 2)]

            async def waits() -> bool:
                traces = (await http.get("/v1/runs", params={"function": "shop-handle-order"})).json()["data"]
                details = [(await http.get(f"/v1/runs/{run['id']}/trace")).json()["data"] for run in traces]
                return all([step["op"] for step in run["steps"] if step["status"] == "Open"] == ["WaitForEvent"]
                           for run in details)  # fmt: skip

            await _eventually(waits, log)
            alone.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(alone.wait, 20) == 0
        async with process(*engine, env=environment(), log=log) as alone:
            await shop.functions()
            for number in (1, 2):
                await shop.send("shop/order.paid", order=f"o-{number}")

            assert await shop.output(orders[0]) == {"order": "o-1", "state": "sold", "invoice": "invoice for o-1: 40"}
            assert await shop.output(orders[1]) == {"order": "o-2", "state": "sold", "invoice": "invoice for o-2: 50"}
            assert await shop.output_of("shop-count-sales") == ["o-1", "o-2"]
            alone.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(alone.wait, 20) == 0
    assert "Traceback" not in log.read_text()


async def test_its_address_says_what_it_is(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "empty.db", ManualClock(datetime.now(UTC)), "key", dev=True)
    await engine.start()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(engine.api), base_url="http://engine.test") as http:
        empty = await http.get("/")
    await engine.stop(0)
    async with running(tmp_path / "engine.db", build, dev=True) as lab, lab.http(None) as http:
        known = await http.get("/")

    assert empty.status_code == known.status_code == 200
    assert "in the place of an Inngest Dev Server" in empty.text and "No app is registered yet" in empty.text
    count = len(build(inngest.Inngest(app_id="rec"))) + 1  # a failure function comes with one of them
    assert f"Registered functions: {count}, of rec." in known.text
    assert "/v1/runs/<id>/trace" in known.text and '{"name": "...", "data": {}}' in known.text


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "app.cli", "engine", "--port", str(port), "--db", str(tmp_path / "e.db")],
            cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip

    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Choose another --port" in done.stderr


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        ("127.0.0.1", 99_999, "a port is a number from 0 to 65535. Choose another --port."),
        ("127.0.0.1", -1, "a port is a number from 0 to 65535. Choose another --port."),
        ("192.0.2.1", 0, "Choose another --host or --port."),
    ],
)
async def test_an_address_that_cannot_be_is_named(tmp_path: Path, host: str, port: int, reason: str) -> None:
    with pytest.raises(AddressTaken, match=f"Cannot listen on {host}:{port}: .*{reason}"):
        await serve(tmp_path / "e.db", ManualClock(datetime.now(UTC)), host, port)


@pytest.mark.parametrize(
    ("address", "headers", "trusted"),
    [
        ("127.0.0.1", {"host": "127.0.0.1:8288"}, True),
        ("127.0.0.1", {"host": "localhost:8288"}, True),
        ("::1", {"host": "[::1]:8288"}, True),
        ("127.0.0.1", {"host": "localhost", "origin": "http://localhost:3000"}, True),
        ("10.0.0.7", {"host": "127.0.0.1:8288"}, False),
        ("", {"host": "127.0.0.1:8288"}, False),
        ("127.0.0.1", {"host": "evil.example"}, False),
        ("127.0.0.1", {"host": "localhost", "origin": "https://evil.example"}, False),
        ("127.0.0.1", {"host": "localhost", "origin": "null"}, False),
    ],
)
def test_who_needs_no_key_on_a_development_server(address: str, headers: dict[str, str], trusted: bool) -> None:
    caller = Caller(address, headers)

    assert Access("key", None, dev=True).is_trusted(caller) is trusted
    assert Access("key", None, dev=True).may_steer(caller) is trusted
    assert Access("key", None, dev=False).is_trusted(caller) is False


def test_event_keys() -> None:
    here, page = (
        Caller("127.0.0.1", {}),
        Caller("127.0.0.1", {"origin": "https://elsewhere.example", "host": "localhost"}),
    )
    assert Access("key", None, dev=True).may_send("whatever", here)
    assert not Access("key", None, dev=True).may_send("whatever", page)
    assert not Access("key", None).may_send("whatever", here)
    assert Access("key", None).may_send("key", page)
