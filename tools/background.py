"""Commands that go on after the call that started them, until they end, are ended, or the service stops calmly."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from app.errors import BadInput
from app.files import write_atomic
from tools.background_records import (
    FOLDER,
    Background,
    exit_path,
    folder,
    is_running,
    number_of,
    output_path,
    reap,
    records,
    write,
)
from tools.fence import explained
from tools.identity import identity_of

MAX_RUNNING = 20
KEPT_ENDED = 20
GRACE_S = 2.0
LOOK_EVERY_S = 0.05
SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Ignored by Python, and so by its children unless they are told otherwise."""

SERVICE_STOPPED = "ended when the service stopped"

# Nothing runs before its record is on disk: whoever dies in between closes the pipe, and the command never starts.
# The trap lets the outcome be noted when the group is asked to end. What this shell itself has to say is not output.
# A flood of output stops before the disk is full.
_SCRIPT = """
read -r go || exit 125
exec </dev/null
trap : TERM INT HUP
ulimit -Sf 2000000 2>/dev/null
exit=$1
cd -- "$2" || exit 125
shift 2
exec 3>&2 2>/dev/null
"$@" 2>&3 3>&-
code=$?
printf %s "$code" >"$exit.new" && mv -- "$exit.new" "$exit"
"""


def plan(workspace: Path, command: str, now: datetime, task: str = "") -> Background:
    """A command that is to be started: it has a name and an empty output file, and no process yet.

    Blocks. Raises BadInput when there are too many; OSError.
    """
    known = records(workspace)
    if sum(is_running(workspace, one) for one in known) >= MAX_RUNNING:
        raise BadInput(f"{MAX_RUNNING} background commands run already; end one with bash_kill")
    _forget_old(workspace, known)
    return Background(id=_new_name(workspace, known), pid=0, identity="", command=command, since=now, task=task)


def start(
    workspace: Path, planned: Background, argv: Sequence[str], where: Path, environment: Mapping[str, str]
) -> Background:
    """Start what was planned, as `argv` says how, in a group of its own. Blocks. Raises OSError, ValueError."""
    output = os.open(output_path(workspace, planned.id), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    go, held = os.pipe()
    try:
        pid = _spawn(argv, exit_path(workspace, planned.id), where, environment, (go, output))
        found = identity_of(pid)
        record = planned.model_copy(update={"pid": pid, "identity": found.start if found else ""})
        write(workspace, record)
        os.write(held, b"go\n")
    finally:
        for descriptor in (go, held, output):
            os.close(descriptor)
    return record


def _spawn(
    command: Sequence[str], exit_path: Path, where: Path, environment: Mapping[str, str], files: tuple[int, int]
) -> int:
    argv = ["bash", "-c", _SCRIPT, "moab-background", str(exit_path), str(where), *command]
    stdin, output = files
    actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    return os.posix_spawnp("bash", argv, dict(environment), file_actions=actions, setsid=True, setsigdef=SIGNALS)


def _new_name(workspace: Path, known: Sequence[Background]) -> str:
    """A name that no other command has, or will have: its output file is made."""
    number = max((number_of(one.id) for one in known), default=0)
    place = folder(workspace)
    with explained(FOLDER, place):
        place.mkdir(parents=True, exist_ok=True)
        if not (place.parent / ".gitignore").exists():
            # Searches of the workspace would find every command and its output besides the files that are meant.
            write_atomic(place.parent / ".gitignore", f"/{place.name}/\n")
        while True:
            number += 1
            with contextlib.suppress(FileExistsError):
                os.close(os.open(place / f"b{number}.log", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                return f"b{number}"


async def until(happened: Callable[[], bool], within_s: float) -> bool:
    """Look again and again whether it `happened`, for `within_s` seconds; whether it did."""
    for _ in range(max(1, round(within_s / LOOK_EVERY_S))):
        if happened():
            return True
        await asyncio.sleep(LOOK_EVERY_S)
    return happened()


async def end(workspace: Path, some: Sequence[Background], note: str) -> list[str]:
    """Ask the groups of those of `some` that run to end, kill what has not ended after GRACE_S; the names of those."""
    running = [record for record in some if is_running(workspace, record)]
    for record in running:
        _signal(record, signal.SIGTERM)
        write(workspace, record.model_copy(update={"note": note}))

    def all_gone() -> bool:
        return not any(is_running(workspace, record) for record in running)

    await until(all_gone, GRACE_S)
    for record in running:
        # Also where the leader went quietly: its children may have ignored the polite signal.
        _signal(record, signal.SIGKILL)
    await until(all_gone, GRACE_S)
    for record in running:
        reap(record)
    return [record.id for record in running]


def _signal(record: Background, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(record.pid, number)


async def end_background(workspace_root: Path) -> list[str]:
    """End every background command of the workspace, when the service stops calmly; the names of those that ran."""
    some = await asyncio.to_thread(records, workspace_root)
    return await end(workspace_root, some, SERVICE_STOPPED)


def _forget_old(workspace: Path, known: Sequence[Background]) -> None:
    ended = [record for record in known if not is_running(workspace, record)]
    for record in ended:
        reap(record)
    for record in ended[: max(0, len(ended) - KEPT_ENDED)]:
        for suffix in ("log", "exit", "json"):
            (folder(workspace) / f"{record.id}.{suffix}").unlink(missing_ok=True)
