"""Pictures as files: made small enough for any provider, and read for a model. Blocks; call it in a thread."""

import base64
import functools
import io
import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.files import open_file

LONGEST_SIDE_PIXELS = 1568
"""Providers shrink what is larger, or refuse it."""

MAX_BYTES = 1_000_000
MAX_SOURCE_BYTES = 20_000_000
MAX_SOURCE_PIXELS = 40_000_000
QUALITIES = (85, 60, 35)
FORMATS = ("JPEG", "PNG", "GIF", "WEBP")


@dataclass(frozen=True)
class SmallPicture:
    """A picture that every provider takes: at most MAX_BYTES and LONGEST_SIDE_PIXELS, as PNG or JPEG."""

    data: bytes
    suffix: str

    @property
    def data_url(self) -> str:
        mime = "image/png" if self.suffix == ".png" else "image/jpeg"
        return f"data:{mime};base64,{base64.b64encode(self.data).decode('ascii')}"


def small_picture(data: bytes) -> SmallPicture | None:
    """The (first) picture in `data`, made small; None if it is none of the known formats, is damaged, or is too large.

    Drawings stay PNG where they are small enough; anything else becomes JPEG, on white where it is transparent.
    """
    if len(data) > MAX_SOURCE_BYTES:
        return None
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None  # our own limit is lower, and looked at before anything is decoded
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            is_drawing = opened.format in ("PNG", "GIF")
            opened.draft("RGB", (LONGEST_SIDE_PIXELS, LONGEST_SIDE_PIXELS))  # a JPEG is decoded no larger than needed
            if opened.width * opened.height > MAX_SOURCE_PIXELS:
                return None
            picture: Any = opened if opened.mode in ("L", "RGB", "RGBA") else opened.convert("RGBA")
            picture.thumbnail((LONGEST_SIDE_PIXELS, LONGEST_SIDE_PIXELS))
            picture = ImageOps.exif_transpose(picture).convert("RGBA")
            on_white = Image.new("RGB", picture.size, "white")
            on_white.paste(picture, mask=picture)
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, struct.error):
        return None  # a damaged file is told in as many ways as there are formats
    return _drawing(on_white) or _photo(on_white) if is_drawing else _photo(on_white)


def _drawing(picture: Any) -> SmallPicture | None:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return SmallPicture(out.getvalue(), ".png") if out.tell() <= MAX_BYTES else None


def _photo(picture: Any) -> SmallPicture | None:
    for quality in QUALITIES:
        out = io.BytesIO()
        picture.save(out, "JPEG", quality=quality)
        if out.tell() <= MAX_BYTES:
            return SmallPicture(out.getvalue(), ".jpg")
    return None


def data_urls(root: Path, paths: Sequence[str]) -> dict[str, str]:
    """By path (relative to `root`), the pictures that are there as data URLs; what cannot be shown is left out."""
    found = {path: _data_url(root, path) for path in paths}
    return {path: url for path, url in found.items() if url is not None}


def _data_url(root: Path, path: str) -> str | None:
    root = root.resolve()
    whole = Path(os.path.normpath(root / path))
    try:
        about = whole.lstat()
    except (OSError, ValueError):
        return None
    is_fit = whole.is_relative_to(root) and stat.S_ISREG(about.st_mode) and about.st_size <= MAX_SOURCE_BYTES
    return _of_file(whole, about.st_mtime_ns, about.st_size) if is_fit else None


@functools.lru_cache(maxsize=12)
def _of_file(whole: Path, changed_ns: int, size: int) -> str | None:
    """A turn shows the same pictures with every call: they are read and shrunk once, as long as they stay the same."""
    try:
        descriptor = open_file(whole)  # no part of it may be a link
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        picture = small_picture(file.read(MAX_SOURCE_BYTES + 1))
    return picture.data_url if picture is not None else None
