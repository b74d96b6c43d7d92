"""Files that come with a message over HTTP: in its body as base64, or already in the workspace."""

import asyncio
import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.clock import Clock
from app.errors import BadInput
from app.events import Attachment
from app.files import INBOX, safe_name, write_atomic

MAX_FILES = 10
BASE64_GROWTH = 1.4
FORM = (
    '{"kind"?: "voice"|"audio"|"video"|"photo"|"document", "name"?, "mime"?, '
    '"data": base64, or "path": a file of the workspace}'
)


class PostedFile(BaseModel):
    """One file of a message: `data` is its content in base64, or `path` where it lies in the workspace."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["voice", "audio", "video", "photo", "document"] = "document"
    name: Annotated[str, Field(max_length=200)] = ""
    mime: Annotated[str, Field(max_length=200)] = ""
    data: str | None = None
    path: Annotated[str, Field(min_length=1, max_length=1000)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.data is None) == (self.path is None):
            raise ValueError(f"give one of data and path; accepted: {FORM}")
        return self


@dataclass(frozen=True)
class Box:
    """Where files of messages are put: the inbox of a workspace, in a folder for each day of `zone`."""

    workspace: Path
    clock: Clock
    zone: ZoneInfo
    limit_bytes: int

    @property
    def body_bytes(self) -> int:
        """What the largest file may take in the body of a request."""
        return int(BASE64_GROWTH * self.limit_bytes)

    async def bring_in(self, files: Sequence[PostedFile], message_key: str) -> tuple[Attachment, ...]:
        """Write what came in the body, once for a message key, and look at what is named.

        Raises BadInput naming the file that cannot be taken.
        """
        if not files:
            return ()
        day = self.clock.now().astimezone(self.zone).date().isoformat()
        prefix = f"{INBOX}/{day}/{hashlib.sha256(message_key.encode()).hexdigest()[:12]}"
        return await asyncio.to_thread(_bring_in, self.workspace, prefix, files, self.limit_bytes)


def _bring_in(workspace: Path, prefix: str, files: Sequence[PostedFile], limit_bytes: int) -> tuple[Attachment, ...]:
    root, found = Path(os.path.realpath(workspace)), []
    for number, file in enumerate(files):
        if file.data is not None:
            path = root / f"{prefix}-{number}-{safe_name(file.name, file.kind)}"
            size = _write(path, _decoded(file.data, number), number, limit_bytes)
        else:
            path, size = _there(root, file.path or "", number, limit_bytes)
        relative = path.relative_to(root).as_posix()
        found.append(
            Attachment(kind=file.kind, name=file.name or None, mime=file.mime or None, size=size, path=relative)
        )
    return tuple(found)


def _decoded(data: str, number: int) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"attachments.{number}.data is not base64 ({error}).") from error


def _write(path: Path, content: bytes, number: int, limit_bytes: int) -> int:
    _require_size(len(content), f"attachments.{number}.data", limit_bytes)
    if not path.exists():  # a message that is posted again brings nothing new
        write_atomic(path, content)
    return len(content)


def _there(root: Path, path: str, number: int, limit_bytes: int) -> tuple[Path, int]:
    real = Path(os.path.realpath(root / path))
    name = f"attachments.{number}.path {path!r}"
    if not real.is_relative_to(root):
        raise BadInput(f"{name} leads outside the workspace; accepted: a path in it, such as inbox/note.ogg.")
    if not real.is_file():
        raise BadInput(f"{name} is no file in the workspace.")
    size = real.stat().st_size
    _require_size(size, name, limit_bytes)
    return real, size


def _require_size(size: int, name: str, limit_bytes: int) -> None:
    if not 0 < size <= limit_bytes:
        raise BadInput(f"{name} has {size} bytes; accepted: 1 to {limit_bytes} (ATTACHMENT_MAX_MB).")
