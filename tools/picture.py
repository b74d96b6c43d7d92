"""What a picture is, told from its first bytes: format and size in pixels."""

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO

HEADER_BYTES = 262_144
"""A JPEG may carry this much about the camera, with a preview, before it says how large it is."""

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})


def pixels(file: BinaryIO) -> tuple[str, tuple[int, int] | None] | None:
    """(format, (width, height)) of the picture in `file`, read from its start; None if it is none of the four known.

    The size is None where the header is damaged.
    """
    head = file.read(HEADER_BYTES)
    for name, is_one, measure in _FORMATS:
        if is_one(head):
            try:
                size = measure(head)
            except (struct.error, IndexError):
                return name, None
            return name, size if size and all(size) else None
    return None


def _png(head: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from(">II", head, 16)
    return (width, height) if head[12:16] == b"IHDR" else None


def _gif(head: bytes) -> tuple[int, int] | None:
    width, height = struct.unpack_from("<HH", head, 6)
    return width, height


def _jpeg(head: bytes) -> tuple[int, int] | None:
    for marker, at in _segments(head):
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", head, at + 3)
            return width, height
    return None


def _segments(head: bytes) -> Iterator[tuple[int, int]]:
    """(marker, place of its length) of the parts of a JPEG."""
    at = 2
    while at < len(head):
        if head[at] != 0xFF:
            return
        marker = head[at + 1]
        at += 1 if marker == 0xFF else 2
        if marker == 0xFF or marker in _ALONE:
            continue
        yield marker, at
        at += int.from_bytes(head[at : at + 2]) or len(head)


def _webp(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", head, 21)[0]
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


_FORMATS: tuple[tuple[str, Callable[[bytes], bool], Callable[[bytes], tuple[int, int] | None]], ...] = (
    ("PNG", lambda head: head.startswith(b"\x89PNG\r\n"), _png),
    ("JPEG", lambda head: head.startswith(b"\xff\xd8\xff"), _jpeg),
    ("GIF", lambda head: head.startswith((b"GIF87a", b"GIF89a")), _gif),
    ("WebP", lambda head: head[:4] == b"RIFF" and head[8:12] == b"WEBP", _webp),
)
