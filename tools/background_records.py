"""What is known of commands in the background: a record, an output file and an exit file for each, in the workspace.

The records are small files, so that another process of the service finds what an earlier one started.
"""

import contextlib
import os
import re
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from app.errors import BadInput, MoabError
from app.files import write_atomic
from tools.fence import inside, open_regular
from tools.identity import identity_of

FOLDER = ".moab/background"
RECORD_BYTES = 200_000

_ID = re.compile(r"b(\d{1,6})")


class Background(BaseModel):
    """The record of one command. `identity` tells its process from a later one with the same number; `task` is the id
    by which the ledger knows it.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    pid: int
    identity: str
    command: str
    since: datetime
    note: str = ""
    task: str = ""


def output_path(workspace: Path, name: str) -> Path:
    return folder(workspace) / f"{name}.log"


def folder(workspace: Path) -> Path:
    """Where all of it lies. Raises OutsideWorkspace when somebody made a link of it that leads out."""
    return inside(workspace, FOLDER)


def number_of(name: str) -> int:
    found = _ID.fullmatch(name)
    return int(found[1]) if found else 0


def exit_path(workspace: Path, name: str) -> Path:
    return folder(workspace) / f"{name}.exit"


def write(workspace: Path, record: Background) -> None:
    write_atomic(folder(workspace) / f"{record.id}.json", record.model_dump_json(indent=1))


def records(workspace: Path) -> list[Background]:
    """All that are known, the oldest first; a record or a folder that cannot be read is left out."""
    with contextlib.suppress(OSError, MoabError):
        names = [path.stem for path in folder(workspace).glob("b*.json") if _ID.fullmatch(path.stem)]
        found = (_read(workspace, name) for name in sorted(names, key=number_of))
        return [record for record in found if record is not None]
    return []


def _read(workspace: Path, name: str) -> Background | None:
    try:
        with open_regular(folder(workspace) / f"{name}.json", name) as file:
            record = Background.model_validate_json(file.read(RECORD_BYTES))
    except (MoabError, ValidationError, ValueError):
        return None
    return record if record.id == name and record.pid > 1 else None


def find(workspace: Path, name: str) -> Background:
    """The record called `name`. Raises BadInput with the names that there are."""
    record = _read(workspace, name) if _ID.fullmatch(name) else None
    if record is None:
        known = ", ".join(one.id for one in records(workspace))
        raise BadInput(f"there is no background command {name!r}; accepted: {known or '(there are none)'}")
    return record


def is_running(workspace: Path, record: Background) -> bool:
    """Whether the process that was started for `record` is there, and not another that has its number now."""
    found = identity_of(record.pid)
    # The path is an argument of ours: a record written by hand cannot make a process of somebody else look like it.
    marker = str(exit_path(workspace, record.id))
    return found is not None and found.start == record.identity and marker in found.arguments


def exit_code(workspace: Path, record: Background) -> int | None:
    """The exit code that was noted; None while it runs, or when it was killed before it could be noted."""
    try:
        with open_regular(exit_path(workspace, record.id), record.id) as file:
            return int(file.read(20))
    except (MoabError, ValueError):
        return None


def reap(record: Background) -> None:
    """Take note of the end of a process, if it is a child of ours; else the kernel would keep its entry."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(record.pid, os.WNOHANG)
