"""Which process has a number: its start and its arguments, since numbers are given out again."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
PS_S = 5.0


@dataclass(frozen=True)
class Identity:
    """`start` differs for every process that ever had the number, also after the machine was started anew."""

    start: str
    arguments: str


def identity_of(pid: int) -> Identity | None:
    """Who process `pid` is; None if there is none, or it has ended and nobody has asked for its outcome yet. Blocks."""
    return _by_proc(pid) if _BOOT.exists() else _by_ps(pid)


def _by_proc(pid: int) -> Identity | None:
    try:
        # The name, in parentheses, may itself hold spaces and parentheses.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        arguments = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
        boot = _BOOT.read_text().strip()
    except (OSError, ValueError):
        return None
    state, start = fields[0], fields[19]
    return None if state in "ZXx" else Identity(f"{boot}/{start}", arguments)


def _by_ps(pid: int) -> Identity | None:
    def ask(what: str) -> str:
        argv = ["/bin/ps", "-ww", "-o", f"{what}=", "-p", str(pid)]
        done = subprocess.run(argv, capture_output=True, timeout=PS_S, check=False)  # noqa: S603 - a fixed program
        return done.stdout.decode(errors="replace").strip()

    try:
        state, start, arguments = ask("stat"), ask("lstart"), ask("args")
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if not state or state.startswith("Z") else Identity(start, arguments)
