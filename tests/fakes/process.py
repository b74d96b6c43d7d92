"""A fake as a separate process, which outlives kill -9 of the service; and the command line of the fakes."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from tests.fakes.fake_server import FakeServer

ROOT = Path(__file__).resolve().parents[2]


def serve(fake: type[FakeServer]) -> None:
    """Run one fake until SIGTERM or SIGINT. Prints one line of JSON, `{"url": ...}`, when it listens."""
    parser = argparse.ArgumentParser(description=fake.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--log", type=Path, help="append every call to this file, one JSON object a line")
    parser.add_argument("--script", type=Path, help="a JSON file: the list of entries to start with")
    options = parser.parse_args()
    server = fake(port=options.port, log=options.log)
    if options.script:
        server.script(*json.loads(options.script.read_text(encoding="utf-8")))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    server.start()
    sys.stdout.write(json.dumps({"url": server.url}) + "\n")
    sys.stdout.flush()
    ended.wait()
    server.stop()


class FakeProcess:
    """`with FakeProcess("telegram_server") as fake:` runs the fake in its own process; `fake.url` is its address."""

    def __init__(self, module: str, *options: str) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"tests.fakes.{module}", *options],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    def script(self, *entries: Mapping[str, Any], reset: bool = False) -> None:
        self.control("/__script", {"entries": [dict(entry) for entry in entries], "reset": reset})

    def calls(self, method: str | None = None) -> Sequence[dict[str, Any]]:
        """The recorded calls as dictionaries: at, method, params, outcome, detail."""
        query = {"method": method} if method else {}
        found: list[dict[str, Any]] = httpx.get(self.url + "/__calls", params=query, trust_env=False).json()["calls"]
        return found

    def control(self, path: str, body: Mapping[str, Any]) -> Any:
        content = json.dumps(dict(body))  # also what is no valid UTF-8 can be scripted
        return httpx.post(self.url + path, content=content, trust_env=False).raise_for_status().json()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(5)
        if self._process.stdout:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
