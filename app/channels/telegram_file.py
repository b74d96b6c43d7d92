"""A file of the workspace as Telegram takes it: a picture, a voice message or a document."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from app.channels.channel import Part
from app.channels.workspace_file import open_part

FILE_BYTES = 50_000_000
PHOTO_BYTES = 10_000_000
CAPTION_UNITS = 1024
SNIFF_BYTES = 64
"""The first two limits and the caption's are the Bot API's; source: core.telegram.org/bots/api, Sending files."""


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
    """The file that `part` names, as `open_part` finds it. Blocks. Raises CannotBeSent."""
    opened = open_part(root, part, FILE_BYTES, "Telegram")
    head = opened.file.read(SNIFF_BYTES)
    opened.file.seek(0)
    method, field = _kind(head, opened.size)
    return Upload(method, field, opened.file, opened.name)


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
