"""Real processes on free ports: started with the module's name, killed at the end."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would tell an SDK where its server is, and with `more`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("INNGEST")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**kept, **more}


@contextlib.asynccontextmanager
async def process(*arguments: str, env: dict[str, str], log: Path) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A Python module run with arguments; what it says goes to the log."""
    with log.open("ab") as output:
        started = subprocess.Popen(  # noqa: ASYNC220  returns at once
            [sys.executable, "-m", *arguments], cwd=ROOT, env=env, stdout=output, stderr=output
        )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
