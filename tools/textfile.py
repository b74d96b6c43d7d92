"""A file of text: its encoding found and kept, its new content written at once or not at all."""

import codecs
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from app.errors import BadInput
from app.files import draft_name, open_folder
from tools.fence import explained, open_regular, require_regular
from tools.sniff import SNIFF_BYTES, binary_kind, size

EDIT_LIMIT_BYTES = 10_000_000


@dataclass(frozen=True)
class Encoding:
    """How text stands in a file: a codec and the byte order mark before it (often empty)."""

    codec: str
    bom: bytes = b""

    def decode(self, data: bytes) -> str:
        return data[len(self.bom) :].decode(self.codec)

    def encode(self, text: str) -> bytes:
        return self.bom + text.encode(self.codec)


UTF8 = Encoding("utf-8")
_BOMS = (
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)


def encoding_of(data: bytes, *, is_whole: bool = True) -> Encoding:
    """The encoding of a text that is, or (with `is_whole` false) begins with, `data`.

    What is not UTF-8 counts as Latin-1: it maps every byte to a character and back, so an edit changes only what it
    names.
    """
    for encoding in _BOMS:
        if data.startswith(encoding.bom):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=is_whole)
    except UnicodeDecodeError:
        return Encoding("latin-1")
    return UTF8


@dataclass(frozen=True)
class TextFile:
    """The whole of one file of text."""

    text: str
    encoding: Encoding


def load(path: Path, name: str) -> TextFile:
    """The text of `path` with its line endings as they are. Raises BadInput when it is too long or not text."""
    with open_regular(path, name) as file, explained(name, path):
        data = file.read(EDIT_LIMIT_BYTES + 1)
        total = os.fstat(file.fileno()).st_size
    if len(data) > EDIT_LIMIT_BYTES:
        raise BadInput(f"{name} has {size(total)}; accepted: at most {size(EDIT_LIMIT_BYTES)} (use bash, e.g. sed)")
    if kind := binary_kind(data[:SNIFF_BYTES]):
        raise BadInput(f"{name} is {kind}, not text; accepted: a file of text")
    encoding = encoding_of(data)
    try:
        return TextFile(encoding.decode(data), encoding)
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is damaged {encoding.codec} text ({error.reason}); use bash") from error


def save(path: Path, name: str, text: str, encoding: Encoding = UTF8) -> bool:
    """Make `text` the content of `path`, with folders as needed; answers whether the file is new.

    Readers see the old content or the new, never a part, also across a crash. An existing file keeps its mode. A
    folder of the path that has become a link since the path was resolved is not followed.
    """
    try:
        data = encoding.encode(text)
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.start + 1]
        raise BadInput(
            f"{name}: the character {wrong!a} does not exist in {encoding.codec}, this file's form"
        ) from error
    with explained(name, path):
        folder = open_folder(path.parent, create=True)
        try:
            mode = _replaceable_mode(folder, path.name, name)
            _replace(folder, path.name, data, mode)
        finally:
            os.close(folder)
    return mode is None


def _replaceable_mode(folder: int, entry: str, name: str) -> int | None:
    try:
        status = os.stat(entry, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_regular(status, name)
    # A rename asks only the folder for leave; the file's own protection would be passed over in silence.
    if not os.access(entry, os.W_OK, dir_fd=folder):
        raise BadInput(f"{name} is write-protected")
    return status.st_mode & 0o7777


def _replace(folder: int, entry: str, data: bytes, mode: int | None) -> None:
    draft = draft_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, entry, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=folder)
        raise
    _sync_folder(folder)


def _sync_folder(folder: int) -> None:
    # Without it a power cut may bring the old name table back, and the file with it.
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
