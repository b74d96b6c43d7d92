"""A file of the workspace that a part names, opened for sending."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from app.channels.channel import Part
from app.files import open_file
from app.sentences import Sentence

OUTSIDE = Sentence("{name} lies outside the workspace.")
UNREADABLE = Sentence("{name} cannot be read any more: {error}.")
IRREGULAR = Sentence("{name} is not a regular file.")
OF_SIZE = Sentence("{name} has {size} bytes; {platform} takes 1 to {limit}.")


class CannotBeSent(Exception):
    """Why a file cannot be sent; it never will be, as it is."""


@dataclass(frozen=True)
class Opened:
    """An open file, to be closed by who asked for it; what the user sees as its name; its size in bytes."""

    file: BinaryIO
    name: str
    size: int


def open_part(root: Path | None, part: Part, limit_bytes: int, platform: str) -> Opened:
    """The file that `part` names (`file`: relative to `root`, without links; `name`: what the user sees). Blocks.

    Looked at anew, because much may have happened since the tool looked. Raises CannotBeSent.
    """
    if root is None:
        raise CannotBeSent("This channel knows no workspace to send files from.")
    path = PurePosixPath(str(part["file"]))
    name = str(part.get("name") or path.name)
    if path.is_absolute() or ".." in path.parts:
        raise CannotBeSent(OUTSIDE.format(name=name))
    try:
        file = os.fdopen(open_file(Path(os.path.realpath(root)) / path), "rb")
    except (OSError, ValueError) as error:
        raise CannotBeSent(UNREADABLE.format(name=name, error=error)) from error
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= limit_bytes:
        return Opened(file, name, status.st_size)
    file.close()
    if not stat.S_ISREG(status.st_mode):
        raise CannotBeSent(IRREGULAR.format(name=name))
    raise CannotBeSent(OF_SIZE.format(name=name, size=status.st_size, platform=platform, limit=limit_bytes))
