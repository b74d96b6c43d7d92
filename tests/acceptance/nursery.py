"""Children that start in a moment: a process that has everything imported is forked for each of them.

What runs in a child is the `moab` command as it is; only the seconds that imports take are saved, which a suite of
a hundred kills cannot spend. Tests of the start itself start a fresh interpreter (`Command.fresh`).
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import httpx

ROOT = Path(__file__).resolve().parents[2]
LOOK_EVERY_S = 0.01


@dataclass(frozen=True)
class Command:
    """A `moab` process to start; its streams are files. `speed` makes its clock run faster; `lossy` is the engine's
    switch of that name."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    output: str
    errors: str = ""
    """Where stderr goes, if not where stdout does."""
    input: str = os.devnull
    speed: float = 1.0
    speed_from: float = field(default_factory=time.time)
    lossy: bool = False

    def fresh(self) -> "subprocess.Popen[bytes]":
        """Started as a person starts it: a new interpreter; the clock and the engine as they are."""
        assert self.speed == 1 and not self.lossy
        with open(self.output, "ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "app.cli", *self.arguments],
                cwd=self.folder,
                env=dict(self.environment) | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )


class Child(Protocol):
    """A running process, ours or the nursery's."""

    pid: int

    def poll(self) -> int | None: ...


class Forked:
    """A process the nursery forked; `poll` as `subprocess.Popen` has it."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self.pid = pid
        self._nursery = nursery
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            self._code = self._nursery.ask({"pid": self.pid})
        return self._code


class Nursery:
    """The forking process, asked line by line over its standard streams; safe for several threads."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.nursery"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._lock = threading.Lock()

    def start(self, command: Command) -> Forked:
        return Forked(self, self.ask(asdict(command)))

    def ask(self, question: Mapping[str, Any]) -> Any:
        with self._lock:
            assert self._process.stdin and self._process.stdout
            assert self._process.poll() is None, f"the nursery ended with {self._process.returncode}"
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, f"the nursery ended with {self._process.wait(10)}"
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def _answer(question: Mapping[str, Any]) -> int | None:
    if "arguments" in question:
        pid = os.fork()
        if pid == 0:
            _live(Command(**question))
        return pid
    ended, status = os.waitpid(question["pid"], os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _live(command: Command) -> None:
    """The child: a process like any other, with the streams, folder and environment it was given."""
    code = 1
    try:
        os.setsid()
        _redirect(command)
        os.environ.clear()
        os.environ.update(command.environment)
        os.chdir(command.folder)
        sys.argv = ["moab", *command.arguments]
        _adjust(command)
        from app.cli import main

        main()
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(command: Command) -> None:
    os.dup2(os.open(command.input, os.O_RDONLY), 0)
    for stream, file in ((1, command.output), (2, command.errors or command.output)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)


def _adjust(command: Command) -> None:
    import functools
    import random

    from app import engines, main
    from app.engine.policies import singleton
    from tests.acceptance.quick_clock import QuickClock

    random.seed()  # the state of the forked process would be the same in every child
    if command.speed != 1:
        main.SystemClock = lambda: QuickClock(command.speed, command.speed_from)
    if command.lossy:
        engines.Engine = functools.partial(engines.Engine, singleton_lossy=True)
        singleton.LOSSY_WINDOW_MS = int(singleton.LOSSY_WINDOW_MS * command.speed)


async def _rehearse(home: Path) -> None:
    """One turn from start to end, which imports what a service needs."""
    from app.config import Settings
    from app.main import running
    from tests.fakes.model_server import ModelServer
    from tests.fakes.telegram_server import TOKEN

    async with ModelServer() as model:
        settings = Settings(
            _env_file=None, moab_home=home, agent_model="openai/fake", agent_api_base=model.api_base, log_level="error",
            telegram_bot_token=TOKEN, telegram_webhook_secret="rehearsal",
        )  # fmt: skip
        model.script({"tool_calls": [{"name": "bash", "arguments": {"command": "true"}}]})
        async with running(settings, port=0) as service, httpx.AsyncClient(timeout=90) as client:
            await client.post(f"{service.url}/api/messages", params={"wait": 60}, json={"message": "rehearse"})


def _needed_modules() -> list[str]:
    """The modules of a rehearsed turn. A child plays it: in this process only imports may have happened."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with tempfile.TemporaryDirectory() as home:
            asyncio.run(_rehearse(Path(home)))
        with os.fdopen(writing, "w") as out:
            json.dump(sorted(sys.modules), out)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        names: list[str] = json.load(answer)
    os.waitpid(child, 0)
    return names


def _warm() -> None:
    """What every child would work out anew: the grammar of expressions; and nothing to collect in what is shared."""
    from app.engine.expressions import Expression

    Expression.compile("event.data.n == 1")
    gc.freeze()


def _serve() -> None:
    # In this order: the model client reads its settings when it is imported.
    from app.config import MODEL_CLIENT_VARIABLES

    os.environ.update(MODEL_CLIENT_VARIABLES | {"OPENAI_API_KEY": "rehearsal"})
    for name in ("litellm", "app.main", *_needed_modules()):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not be forked"
    _warm()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
