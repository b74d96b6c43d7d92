"""Moab as a child process on a home of its own: started, killed, started again, and its databases read from outside."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.acceptance.app_database import SqliteDatabase, app_database
from tests.acceptance.nursery import Child, Command, Nursery
from tests.acceptance.stage import SECRET, Chat, Stage
from tests.fakes.telegram_server import TOKEN

WITHIN_S = 20.0
LOOK_EVERY_S = 0.02
MODEL_KEY = "sk-acceptance-model-key"
SETTLED = {
    "open messages": "SELECT id, text FROM messages WHERE state = 'open'",
    "live turns": "SELECT run_id, activity FROM turns WHERE state = 'live'",
    "turns not settled": "SELECT run_id, state FROM turns WHERE settled_at IS NULL",
    "unsent parts": "SELECT key, state FROM deliveries WHERE state IN ('pending', 'sending')",
    "unfinished calls": "SELECT run_id, step_key, state FROM calls WHERE state IN ('started')",
}
RUNNING = """
    SELECT id, function FROM runs WHERE ended_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM steps WHERE run_id = runs.id AND steps.status = 'Open' AND op = 'Sleep')
"""

Found = TypeVar("Found")


def until(look: Callable[[], Found], what: str, within_s: float = WITHIN_S) -> Found:
    """What `look` finds as soon as it is truthy."""
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {within_s:g} s in vain for {what}"
        time.sleep(LOOK_EVERY_S)
    return found


def starts_are_lost() -> bool:
    """Whether this run of the tests is the one in which every engine loses starts."""
    return bool(os.environ.get("STARTS_ARE_LOST"))


class Service:
    """One home, and the process that serves it at the moment."""

    def __init__(self, nursery: Nursery, stage: Stage, home: Path, *, speed: float = 1.0, lossy: bool = False) -> None:
        self.home = home
        self.stage = stage
        self.url = ""
        self.settings: dict[str, str] = {}
        self._nursery = nursery
        self._app_database = app_database(home)
        self._child: Child | None = None
        self._twists: dict[str, Any] = {"speed": speed, "lossy": lossy or starts_are_lost(), "speed_from": time.time()}
        self._http = httpx.Client(trust_env=False, timeout=WITHIN_S)

    # its life

    def start(self, failpoint: str = "", *, fresh: bool = False) -> "Service":
        """Start and wait until it answers; `failpoint` is where it will kill itself."""
        (self.home / "service.json").unlink(missing_ok=True)
        command = self.command(["serve", "--port", "0"], MOAB_FAILPOINT=failpoint)
        self._child = command.fresh() if fresh else self._nursery.start(command)
        self.url = until(self.noted_url, "the start of the service")
        return self

    def launch(self, failpoint: str = "") -> None:
        """Start and do not wait: it may end before anybody could talk to it."""
        self._child = self._nursery.start(self.command(["serve", "--port", "0"], MOAB_FAILPOINT=failpoint))

    def live_until(self, failpoint: str) -> None:
        """Start, and wait for the end at `failpoint`."""
        self.launch(failpoint)
        assert self.ended() == -9

    def lives(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def command(self, arguments: Sequence[str], **settings: str) -> Command:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "MOAB_HOME": str(self.home),
            "AGENT_MODEL": "openai/fake",
            "AGENT_API_BASE": f"{self.stage.model.url}/v1",
            "OPENAI_API_KEY": MODEL_KEY,
            "TOOL_POLICY": "*=allow",
            "PREVIEW_ANSWERS": "false",
            "APPROVAL_ADMINS": "telegram:7",
            "HEARTBEAT_CRON": "*/30 * * * *",
            "QUIET_HOURS": "off",
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "TELEGRAM_WEBHOOK_SECRET": SECRET,
            "TELEGRAM_ALLOWED_CHATS": ",".join(map(str, range(1000, 2000))),
            "TELEGRAM_API_BASE_URL": self.stage.telegram.url,
        }
        folder = self.home.parent
        return Command(
            list(arguments),
            environment | self._app_database.settings | self.settings | settings,
            str(folder),
            str(self.errors),
            **self._twists,
        )

    def run(
        self, *arguments: str, said: str = "", within_s: float = 3 * WITHIN_S
    ) -> "subprocess.CompletedProcess[str]":
        """A `moab` command on this home, to its end; `said` is what a person types."""
        with tempfile.TemporaryDirectory() as folder:
            files = {name: Path(folder, name) for name in ("input", "output", "errors")}
            files["input"].write_text(said)
            streams = {name: str(file) for name, file in files.items()}
            child = self._nursery.start(replace(self.command(arguments), **streams))
            try:
                until(lambda: child.poll() is not None, f"the end of moab {arguments[0]}", 5 * WITHIN_S)
            finally:
                if child.poll() is None:
                    os.kill(child.pid, signal.SIGKILL)
            ended = child.poll()
            assert ended is not None
            return subprocess.CompletedProcess(
                arguments, ended, files["output"].read_text(), files["errors"].read_text()
            )

    def kill(self) -> None:
        """`kill -9`."""
        assert self._child is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child.pid, signal.SIGKILL)
        self.ended()

    def terminate(self) -> int:
        """SIGTERM; the exit code once it has ended."""
        assert self._child is not None
        os.kill(self._child.pid, signal.SIGTERM)
        return self.ended()

    def ended(self) -> int:
        """Wait for the end of the process; its exit code, negative after a signal."""
        assert self._child is not None
        child = self._child
        until(lambda: child.poll() is not None, "the end of the process")
        code = child.poll()
        assert code is not None
        return code

    def close(self) -> None:
        """Whatever state it is in, nothing of it is left."""
        self._http.close()
        if self._child is not None and self._child.poll() is None:
            self.kill()

    @property
    def errors(self) -> Path:
        """What it writes to stdout and stderr, over all its starts."""
        return self.home.with_suffix(".log")

    def noted_url(self) -> str:
        assert self._child is not None
        assert self._child.poll() is None, f"the service ended at its start:\n{self.errors.read_text()}"
        try:
            note = json.loads((self.home / "service.json").read_text())
        except (OSError, ValueError):
            return ""
        return str(note["url"]) if note["pid"] == self._child.pid else ""

    # talking to it

    def update(self, update: Mapping[str, Any], secret: str = SECRET) -> int:
        """Deliver an update as Telegram does; the status, 0 if the connection broke off."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
        body = json.dumps(update)  # like Telegram: half a pair of surrogates is escaped
        try:
            return self._http.post(f"{self.url}/webhooks/telegram", content=body, headers=headers).status_code
        except httpx.TransportError:
            return 0

    def say(self, chat: Chat, text: str) -> dict[str, Any]:
        """Say something in a chat; the update, which the service has taken."""
        update = chat.update(text)
        assert self.update(update) == 200
        return update

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self._http.get(self.url + path, params=query)

    def post(self, path: str, body: Any, **query: Any) -> httpx.Response:
        return self._http.post(self.url + path, json=body, params=query)

    # looking into it

    def rows(self, sql: str, *values: Any, database: str = "moab.db") -> list[dict[str, Any]]:
        """The answer of one of its databases, read beside the process or after its death."""
        if database == "moab.db":
            return self._app_database.rows(sql, values)
        return SqliteDatabase(self.home / database).rows(sql, values)

    def change(self, sql: str, *values: Any) -> None:
        """Change the app database while the service is down."""
        assert self._child is None or self._child.poll() is not None
        assert self._app_database.change(sql, values) > 0

    def unsettled(self) -> dict[str, list[dict[str, Any]]]:
        """Whatever work is left, by kind."""
        # Runs first: what a run that ends after this look leaves behind is seen in the rows.
        running = self.rows(RUNNING, database="engine.db")
        left = {kind: self.rows(query) for kind, query in SETTLED.items()} | {"running": running}
        return {kind: rows for kind, rows in left.items() if rows}

    def settle(self, within_s: float = WITHIN_S) -> None:
        """Wait until nothing is left to do but what sleeps: in two looks, for work moves between the tables of one."""
        deadline = time.monotonic() + within_s
        while left := self.unsettled() or self.unsettled():
            assert time.monotonic() < deadline, f"after {within_s:g} s there is work left: {left}"
            time.sleep(LOOK_EVERY_S)

    def workspace(self, name: str) -> str:
        """A file of the workspace, empty if it is not there."""
        path = self.home / "workspace" / name
        return path.read_text() if path.exists() else ""
