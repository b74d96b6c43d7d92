"""What the front door's tests share: a fake service and a clean environment for `moab` as a process."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.front.fake_service import FakeService

ROOT = Path(__file__).resolve().parents[3]

Moab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    """A running fake service, noted in `tmp_path` as a real one notes itself in MOAB_HOME."""
    with FakeService(home=tmp_path) as fake:
        yield fake


@pytest.fixture
def moab_env(tmp_path: Path) -> dict[str, str]:
    """An environment with nothing of this machine's settings in it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return kept | {"HOME": str(tmp_path), "MOAB_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "TERM": "xterm"}


@pytest.fixture
def moab(moab_env: dict[str, str], tmp_path: Path) -> Moab:
    """Run `moab` as a process, in an empty folder; `stdin` is its input."""

    def run(*arguments: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "app.cli", *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=moab_env | env, cwd=tmp_path, timeout=60
        )

    return run
