"""Timing of whole turns over the Telegram path, against local fakes; needs a source checkout (tests/fakes)."""

import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from app.clock import SystemClock
from app.config import bench_environment
from app.errors import MoabError

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "123456:fake-bot-token"  # noqa: S105 - the one the local fake accepts
SECRET = "bench-secret"  # noqa: S105 - the same
ROUNDS = 20
WARM_UP = 3
TOOL_ROUNDS = 5
READY_WITHIN_S = 60.0


async def bench_turn() -> dict[str, float]:
    """Medians in ms from webhook POST to sendMessage (and to the typing sign), and memory of the service in MB."""
    if not (ROOT / "tests" / "fakes").is_dir():
        raise MoabError("moab bench needs a source checkout: it plays Telegram and the model with tests/fakes.")
    async with (
        _fake("telegram_server") as telegram,
        _fake("model_server") as model,
        httpx.AsyncClient(timeout=60) as http,
    ):
        with tempfile.TemporaryDirectory() as home:
            async with _service(Path(home), telegram, model) as (process, url):
                idle_mb = _rss_mb(process.pid)
                bench = _Bench(http, url, telegram, model)
                plain, typing = await bench.rounds(0)
                tools, _ = await bench.rounds(TOOL_ROUNDS)
                return {
                    "no_tools_ms": plain,
                    "five_tools_ms": tools,
                    "typing_ms": typing,
                    "rss_mb": _rss_mb(process.pid),
                    "idle_rss_mb": idle_mb,
                }


class _Bench:
    def __init__(self, http: httpx.AsyncClient, url: str, telegram: str, model: str) -> None:
        self._http, self._url, self._telegram, self._model = http, url, telegram, model
        self._sent = 0

    async def rounds(self, tool_rounds: int) -> tuple[float, float]:
        """(median to sendMessage, median to sendChatAction) in ms of ROUNDS turns with that many tool calls."""
        replies, signs = [], []
        for number in range(WARM_UP + ROUNDS):
            reply, sign = await self._turn(tool_rounds)
            if number >= WARM_UP:
                replies.append(reply)
                signs.append(sign)
        return round(statistics.median(replies), 1), round(statistics.median(signs), 1)

    async def _turn(self, tool_rounds: int) -> tuple[float, float]:
        self._sent += 1
        call = {"tool_calls": [{"name": "ls", "arguments": {"path": "."}}], "times": tool_rounds}
        entries = [call] if tool_rounds else []
        await self._http.post(f"{self._model}/__script", json={"entries": [*entries, {"text": "done"}], "reset": True})
        await self._http.post(f"{self._telegram}/__reset")
        update = {"update_id": self._sent, "message": _message(self._sent)}
        headers = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
        began = asyncio.get_running_loop().time()
        answer = await self._http.post(f"{self._url}/webhooks/telegram", json=update, headers=headers)
        answer.raise_for_status()
        reply = await self._when("sendMessage")
        sign = await self._when("sendChatAction")
        await asyncio.sleep(0.05)  # what follows a turn must not run into the next one's time
        return 1000 * (reply - began), 1000 * (sign - began)

    async def _when(self, method: str) -> float:
        for _ in range(2000):
            answer = await self._http.get(f"{self._telegram}/__calls", params={"method": method})
            found = answer.json()["calls"]
            if found:
                return float(found[0]["at"])
            await asyncio.sleep(
                0.05
            )  # the moments are taken by the fake; a look at it costs the service its share of a core
        raise MoabError(f"The fake Telegram saw no {method} within 20 seconds.")


def _message(number: int) -> dict[str, Any]:
    return {
        "message_id": number,
        "date": int(SystemClock().now().timestamp()),  # what is a day old is asked about, not answered
        "chat": {"id": 42, "type": "private"},
        "from": {"id": 7, "is_bot": False, "first_name": "Bench"},
        "text": f"message {number}",
    }


@asynccontextmanager
async def _fake(module: str) -> AsyncIterator[str]:
    async with _child(["-m", f"tests.fakes.{module}"], {}, asyncio.subprocess.PIPE) as process:
        if process.stdout is None:
            raise MoabError("The fake has no output.")
        yield json.loads(await process.stdout.readline())["url"]


@asynccontextmanager
async def _service(home: Path, telegram: str, model: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    settings = {
        "MOAB_HOME": str(home),
        "AGENT_MODEL": "openai/bench",
        "AGENT_API_BASE": f"{model}/v1",
        "OPENAI_API_KEY": "none",
        "TELEGRAM_BOT_TOKEN": TOKEN,
        "TELEGRAM_WEBHOOK_SECRET": SECRET,
        "TELEGRAM_ALLOWED_CHATS": "42",
        "TELEGRAM_API_BASE_URL": telegram,
        "LOG_LEVEL": "warning",
    }
    async with _child(["-m", "app.cli", "serve", "--port", "0"], settings, None) as process:
        yield process, await _ready(home / "service.json", process)


async def _ready(note: Path, process: asyncio.subprocess.Process) -> str:
    for _ in range(int(READY_WITHIN_S / 0.05)):
        if process.returncode is not None:
            raise MoabError(f"The service ended with {process.returncode} before it was ready.")
        if await asyncio.to_thread(note.exists):
            return str(json.loads(await asyncio.to_thread(note.read_text))["url"])
        await asyncio.sleep(0.05)
    raise MoabError(f"The service was not ready within {READY_WITHIN_S:.0f} seconds.")


@asynccontextmanager
async def _child(
    arguments: list[str], settings: Mapping[str, str], stdout: int | None
) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = bench_environment() | dict(settings)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, env=environment, stdout=stdout, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


def _rss_mb(pid: int) -> float:
    """Resident memory; 0 where the system does not tell it the Linux way."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
    except OSError:
        return 0.0
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
