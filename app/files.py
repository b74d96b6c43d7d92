"""Files that are never seen half-written, and paths that lead where they were found to lead."""

import contextlib
import os
import re
import secrets
from pathlib import Path, PurePosixPath

INBOX = "inbox"
"""The folder of the workspace in which what people send lies, by the day it came."""

EXTENSION = {
    "photo": ".jpg",
    "voice": ".ogg",
    "audio": ".mp3",
    "video": ".mp4",
    "video_note": ".mp4",
    "animation": ".mp4",
}
MAX_NAME_CHARS, MAX_EXTENSION_CHARS = 60, 10
DRAFTS = ".moab-*.tmp"
"""What a file is called until it is whole; one that a dead process left is deleted a day later."""


def safe_name(name: str, kind: str) -> str:
    """A name that is safe in any folder, with an extension that says what the file is where `kind` tells it."""
    given = PurePosixPath((name or kind).replace("\\", "/")).name
    stem, dot, extension = given.rpartition(".")
    safe = re.sub(r"[^\w.-]+", "_", stem if dot else given).strip("._")[:MAX_NAME_CHARS] or kind
    ending = re.sub(r"\W+", "", extension)[:MAX_EXTENSION_CHARS] if dot else ""
    return f"{safe}.{ending}" if ending else safe + EXTENSION.get(kind, "")


def draft_name() -> str:
    """A new name of a file that is being written."""
    return DRAFTS.replace("*", secrets.token_hex(8))


def make_private(folder: Path) -> bool:
    """Make `folder`, or what is there of it, its owner's alone; whether others could look into it until now. Blocks.

    Raises OSError, such as PermissionError where it is somebody else's.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077 == 0:
        return False
    folder.chmod(0o700)
    return True


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace `path` with `content` (text as UTF-8) in one move; parents are made, the old mode is kept. Blocks."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(draft_name())
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


def open_folder(path: Path, *, create: bool = False) -> int:
    """A descriptor of the absolute folder `path` for use as `dir_fd`; the caller closes it. Blocks.

    No part of the path may be a link: one put there since the path was resolved would lead elsewhere. With `create`
    folders that are missing are made. Raises OSError.
    """
    descriptor = os.open(path.anchor, _FOLDER)
    for part in path.parts[1:]:
        parent = descriptor
        try:
            descriptor = _step_into(part, parent, create)
        finally:
            os.close(parent)
    return descriptor


def _step_into(part: str, parent: int, create: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):  # another was faster
        os.mkdir(part, dir_fd=parent)
    return os.open(part, _FOLDER, dir_fd=parent)


def open_file(path: Path) -> int:
    """A descriptor for reading the absolute `path`, no part of which may be a link. Blocks. Raises OSError.

    Neither a fifo nor a device holds the caller up; whoever opens one should look what it is.
    """
    folder = open_folder(path.parent)
    try:
        return os.open(path.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
