"""The fence of the workspace: every path of a file tool is resolved, then compared, then opened without surprises.

It keeps honest mistakes inside; it is no sandbox against the shell, which the same model may use.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO

from app.errors import BadInput, MoabError, NotFound, OutsideWorkspace
from app.files import open_file


def inside(workspace: Path, path: str) -> Path:
    """The absolute path, without symbolic links, that `path` stands for; relative ones start at the workspace.

    Raises OutsideWorkspace when it leads out (by `..`, `~`, an absolute path or a link, existing or not), and
    BadInput when it is no path.
    """
    if not path or "\0" in path:
        raise BadInput(f"path {path!r} is not a path; accepted: a path in the workspace such as notes/plan.md")
    root = os.path.realpath(workspace)
    try:
        real = os.path.realpath(os.path.join(root, os.path.expanduser(path)))
    except (OSError, ValueError) as error:
        raise BadInput(f"path {path!r} is not a path ({error}); accepted: a path in the workspace") from error
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        raise OutsideWorkspace(
            f"{path} leads outside the workspace; accepted: a path inside it, such as "
            f"{os.path.basename(path.rstrip('/')) or 'notes.md'} or notes/plan.md"
        )
    return Path(real)


def shown(workspace: Path, path: Path) -> str:
    """How the model knows `path`: relative to the workspace, `.` for the workspace itself."""
    return path.relative_to(os.path.realpath(workspace)).as_posix()


def folder(workspace: Path, path: str) -> Path:
    """Like `inside`, for an existing folder. Raises NotFound or BadInput when it is none."""
    real = inside(workspace, path)
    with explained(path, real):
        if not stat.S_ISDIR(real.stat().st_mode):
            raise BadInput(f"{path} is a file; accepted: a folder in the workspace")
    return real


def open_regular(path: Path, name: str) -> BinaryIO:
    """`path` open for reading in bytes. Raises a sentence about `name` for all but regular files.

    Neither a fifo nor a device may hold the reader: they are opened without waiting, looked at, and refused. A link
    put in place of any part since the path was resolved is refused as well.
    """
    with explained(name, path):
        descriptor = open_file(path)
        try:
            require_regular(os.fstat(descriptor), name)
        except MoabError:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")


def require_regular(status: os.stat_result, name: str) -> None:
    """Raises BadInput unless `status` is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise BadInput(f"{name} is a folder; accepted: a file (use ls to see what is in a folder)")
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{name} is a special file (device, pipe or socket); accepted: a regular file")


@contextmanager
def explained(name: str, path: Path) -> Iterator[None]:
    """Turns what the operating system says about `path` into a sentence about `name` for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{name}: there is no such file or folder.{_neighbours(path)}") from error
    except (NotADirectoryError, FileExistsError) as error:
        raise BadInput(f"{name}: a part of this path is a file, not a folder") from error
    except OSError as error:
        special = error.errno in (errno.ENXIO, errno.ELOOP)
        reason = "it is a special file or a loop of links" if special else error.strerror or "it cannot be used"
        raise BadInput(f"{name}: {reason[:1].lower()}{reason[1:]}") from error


def _neighbours(path: Path) -> str:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry, _ in zip(entries, range(1000), strict=False)]
    except OSError:
        return " Its folder does not exist either."
    close = get_close_matches(path.name, names, n=3)
    return f" Close to it: {', '.join(sorted(close))}." if close else ""
