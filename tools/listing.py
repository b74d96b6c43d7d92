"""What is in a folder, as lines for a model."""

import heapq
import itertools
import os
import stat
from pathlib import Path

from app.agent.output import clean
from app.errors import OutsideWorkspace
from tools.fence import explained, inside, shown
from tools.sniff import size


def listing(workspace: Path, path: Path, name: str, limit: int) -> str:
    """The entries of the folder `path` sorted by name, one a line: folders end with a slash, files show their size.

    Above `limit` entries a last line counts the rest; a folder of a million names is not held in memory.
    """
    with explained(name, path), os.scandir(path) as entries:
        counter = itertools.count()
        # The counter goes along with the names, so that what did not fit is counted in the same pass.
        first = [entry for entry, _ in heapq.nsmallest(limit, ((entry.name, next(counter)) for entry in entries))]
        count = next(counter)
    if not first:
        return f"({name} is empty)"
    lines = [_line(workspace, path / entry) for entry in first]
    if count > len(first):
        lines.append(f"[{count - len(first)} more entries are not shown: use find, or ls a folder further in]")
    return "\n".join(lines)


def _line(workspace: Path, path: Path) -> str:
    # A name may hold line breaks, and so pretend to be several entries.
    name = clean(path.name).replace("\n", "?")
    try:
        status = path.lstat()
    except OSError:
        return f"{name} (gone)"
    if stat.S_ISLNK(status.st_mode):
        return f"{name} -> {_target(workspace, path)}"
    if stat.S_ISDIR(status.st_mode):
        return f"{name}/"
    if stat.S_ISREG(status.st_mode):
        return f"{name} ({size(status.st_size)})"
    return f"{name} (special file)"


def _target(workspace: Path, path: Path) -> str:
    try:
        return clean(shown(workspace, inside(workspace, str(path))))
    except OutsideWorkspace:
        return "outside the workspace, not usable"
