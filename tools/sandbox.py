"""Where commands run: on the machine as it is, or behind walls. Another kind of wall is one more class here."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.errors import BadInput, ConfigError

PROBE_S = 10.0
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
SETTINGS = (
    *("passwd", "group", "hosts", "resolv.conf", "nsswitch.conf", "host.conf", "services", "protocols", "localtime"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl", "ca-certificates", "pki", "mime.types"),
)
"""Of /etc: what programs need to run and to find hosts, nothing that may be secret."""

READ_ONLY = ("policy.toml",)
"""Files of the workspace that say what the agent may do: no command may write them, nor make them."""

FIRST = '"$@"; exit $?'
"""The first process behind the walls waits for the command; when it ends, the kernel ends whatever is left there.

Bubblewrap's own one would be left to be collected by the first process of the machine, which may not care.
"""

HOME = "/tmp"  # noqa: S108 - of the sandbox, empty and gone with each command


class Sandbox(Protocol):
    """How a command is started. Pure: what it says depends on its arguments and on what is on the disk."""

    @property
    def is_closed(self) -> bool:
        """Whether commands reach nothing but the workspace, so that they may run unasked."""
        ...

    def argv(self, command: Sequence[str], workspace: Path, where: Path) -> list[str]:
        """The arguments that run `command` in the folder `where` of `workspace` (both absolute and without links).

        Raises BadInput where the workspace has a form that leaves a hole.
        """
        ...


@dataclass(frozen=True)
class NoSandbox:
    """Commands run as the service itself does."""

    is_closed: bool = False

    def argv(self, command: Sequence[str], workspace: Path, where: Path) -> list[str]:
        return list(command)


NO_SANDBOX = NoSandbox()


@dataclass(frozen=True)
class Bubblewrap:
    """Commands see the system and `readable` folders, which they cannot change, and the workspace, which they can.

    There is nothing else: no other files, no other processes, and without `network` no other machine. With it they
    reach also the services of this one, such as our own, at which requests are decided: so they are not closed in.
    """

    program: str
    network: bool = False
    readable: tuple[str, ...] = ()

    @property
    def is_closed(self) -> bool:
        return not self.network

    def argv(self, command: Sequence[str], workspace: Path, where: Path) -> list[str]:
        return [
            *(self.program, "--unshare-all", *(["--share-net"] if self.network else []), "--cap-drop", "ALL"),
            *(word for path in SYSTEM for word in _system(path)),
            *(word for name in SETTINGS for word in _setting(f"/etc/{name}")),
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", HOME, "--setenv", "HOME", HOME),
            *("--unsetenv", "TMPDIR"),
            *(word for path in self.readable for word in ("--ro-bind", path, path)),
            *("--bind", str(workspace), str(workspace)),
            *(word for name in READ_ONLY for word in _unwritable(workspace / name)),
            *("--chdir", str(where), "--as-pid-1", "--", *("bash", "-c", FIRST, "first"), *command),
        ]


def _system(path: str) -> Iterator[str]:
    """A folder of the system, or the link that stands in its place."""
    if os.path.islink(path):
        yield from ("--symlink", os.readlink(path), path)
    elif os.path.isdir(path):
        yield from ("--ro-bind", path, path)


def _setting(path: str) -> tuple[str, str, str]:
    """A file or folder of /etc, from where its links lead; skipped where it is not there."""
    return ("--ro-bind-try", os.path.realpath(path), path)


def _unwritable(path: Path) -> tuple[str, str, str]:
    """A file as it is; where there is none an empty one stands in its place, which is as good as none."""
    if path.is_symlink():
        raise BadInput(f"{path.name} is a link, which a command in the sandbox could replace; accepted: a file")
    return ("--ro-bind", str(path) if path.is_file() else os.devnull, str(path))


def make_sandbox(
    kind: str, environment: Mapping[str, str], workspace: Path, *, network: bool = False, readable: Sequence[str] = ()
) -> Sandbox:
    """The sandbox called `kind` (none, bwrap), tried out. Blocks.

    Raises ConfigError with what to do when it was asked for and cannot be had.
    """
    if kind == "none":
        return NO_SANDBOX
    program = shutil.which("bwrap", path=environment.get("PATH", os.defpath))
    if program is None:
        raise ConfigError(
            "SANDBOX=bwrap, but bubblewrap is not installed. Install it (Debian and Ubuntu: apt install bubblewrap), "
            "or set SANDBOX=none: then commands run as the service does, and ask."
        )
    missing = [path for path in readable if not os.path.isdir(path)]
    if missing:
        raise ConfigError(f"SANDBOX_READ names {missing[0]}, which is no folder; accepted: absolute paths of folders.")
    sandbox = Bubblewrap(program, network, tuple(map(os.path.realpath, readable)))
    if (fault := why_not(sandbox, workspace)) is not None:
        raise ConfigError(
            f"SANDBOX=bwrap, but bubblewrap cannot work here: {fault}. It needs user namespaces, which containers and "
            "some systems forbid; allow them, or set SANDBOX=none."
        )
    return sandbox


def why_not(sandbox: Sandbox, workspace: Path) -> str | None:
    """Why no command runs in `sandbox` on this machine; None if one does. Blocks."""
    root = Path(os.path.realpath(workspace))
    try:
        argv = sandbox.argv(["true"], root, root)
        done = subprocess.run(argv, capture_output=True, timeout=PROBE_S, check=False, text=True)  # noqa: S603 - ours
    except (OSError, BadInput, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else (done.stderr.strip() or f"exit code {done.returncode}")
