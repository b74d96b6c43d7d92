"""A file of the workspace as Telegram takes it: a picture, a voice message or a document."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from app.channels.channel import Part
from app.files import open_file

FILE_BYTES = 50_000_000
PHOTO_BYTES = 10_000_000
CAPTION_UNITS = 1024
SNIFF_BYTES = 64
"""The first two limits and the caption's are the Bot API's; source: core.telegram.org/bots/api, Sending files."""


class CannotBeSent(Exception):
    """Why a file cannot be sent; it never will be, as it is."""


@dataclass(frozen=True)
class Upload:
    """An open file and how it is sent: the method, and the name of its field in the request."""

    method: str
    field: str
    file: BinaryIO
    name: str

    def again(self) -> "Upload":
        """The same, from the start of the file."""
        self.file.seek(0)
        return self

    def as_document(self) -> "Upload":
        """The same file from its start, for Telegram to keep as it is."""
        self.file.seek(0)
        return Upload("sendDocument", "document", self.file, self.name)

    def files(self) -> Mapping[str, tuple[str, BinaryIO]]:
        """For httpx, which reads the file in pieces as they are sent."""
        return {self.field: (self.name, self.file)}


def open_upload(root: Path | None, part: Part) -> Upload:
    """The file that `part` names (`file`: relative to `root`, without links; `name`: what the user sees). Blocks.

    Looked at anew, because much may have happened since the tool looked. Raises CannotBeSent.
    """
    if root is None:
        raise CannotBeSent("This channel knows no workspace to send files from.")
    path = PurePosixPath(str(part["file"]))
    name = str(part.get("name") or path.name)
    if path.is_absolute() or ".." in path.parts:
        raise CannotBeSent(f"{name} lies outside the workspace.")
    try:
        file = os.fdopen(open_file(Path(os.path.realpath(root)) / path), "rb")
    except (OSError, ValueError) as error:
        raise CannotBeSent(f"{name} cannot be read any more: {error}.") from error
    try:
        return _upload(file, name)
    except CannotBeSent:
        file.close()
        raise


def _upload(file: BinaryIO, name: str) -> Upload:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise CannotBeSent(f"{name} is not a regular file.")
    if not 0 < status.st_size <= FILE_BYTES:
        raise CannotBeSent(f"{name} has {status.st_size} bytes; Telegram takes 1 to {FILE_BYTES}.")
    head = file.read(SNIFF_BYTES)
    file.seek(0)
    method, field = _kind(head, status.st_size)
    return Upload(method, field, file, name)


def _kind(head: bytes, size: int) -> tuple[str, str]:
    is_picture = head.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n")) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")
    if is_picture and size <= PHOTO_BYTES:
        return "sendPhoto", "photo"
    if head.startswith(b"OggS") and b"OpusHead" in head:
        return "sendVoice", "voice"
    return "sendDocument", "document"


def caption_of(part: Part) -> dict[str, Any]:
    """The caption's parameter, cut to what Telegram takes; none where there is no caption."""
    caption = str(part.get("caption") or "")
    encoded = caption.encode("utf-16-le", "surrogatepass")
    if len(encoded) > 2 * CAPTION_UNITS:
        caption = encoded[: 2 * CAPTION_UNITS - 2].decode("utf-16-le", "ignore").rstrip() + "…"
    return {"caption": caption} if caption else {}
