"""A page of a text: some of its lines, numbered, without holding the rest of it in memory."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, TextIO

from app.agent.output import clean
from app.errors import BadInput
from tools.sniff import SNIFF_BYTES, binary_kind, size
from tools.textfile import encoding_of

PAGE_BYTES = 14_000
"""A page stays under what the act step lets through, so that nothing is cut twice and its last line is true."""

LINE_CHARACTERS = 2000
SKIP_CHARACTERS = 500_000_000


@dataclass(frozen=True)
class Window:
    """What to show: `limit` lines from line `offset` on, or with `column` the rest of that one line; all from 1."""

    offset: int = 1
    limit: int = 2000
    column: int = 1


class _TooFar(Exception):
    """What is wanted lies further into the text than anybody waits for."""


def page_of_file(file: BinaryIO, name: str, window: Window) -> str:
    """The window of the text in `file`, and a last line that says how to go on.

    Raises BadInput when the file is not text or has no such line.
    """
    total = os.fstat(file.fileno()).st_size
    file.seek(0)
    head = file.read(SNIFF_BYTES)
    if kind := binary_kind(head):
        raise BadInput(
            f"{name} is {kind} ({size(total)}), not text; accepted: files of text, PDF and pictures. "
            "A program run with bash may be able to convert or describe it."
        )
    if not head:
        return f"({name} is empty)"
    encoding = encoding_of(head, is_whole=False)
    file.seek(len(encoding.bom))
    text = io.TextIOWrapper(file, encoding=encoding.codec, errors="replace", newline=None)
    try:
        return page(text, f"{name} goes on ({size(total)} in all)", name, window)
    finally:
        # The file belongs to the caller; a collected wrapper would close it.
        text.detach()


def page(text: TextIO, goes_on: str, name: str, window: Window) -> str:
    """The window of `text`; `goes_on` is what is said where there is more than it shows."""
    parts = _Parts(text)
    try:
        if window.column > 1:
            return _rest(parts, name, window)
        return _render(_lines(parts), parts, f"[{goes_on}: read it with", name, window)
    except _TooFar as error:
        raise BadInput(f"{name}: what is wanted lies too far into the file; {_BY_HAND}") from error


_BY_HAND = "use bash, e.g. sed -n, tail or cut"


def _render(lines: Iterator[str], parts: Iterator[str], goes_on: str, name: str, window: Window) -> str:
    number = room = 0
    kept: list[str] = []
    try:
        for number, line in enumerate(lines, 1):
            if number < window.offset:
                continue
            numbered = f"{number:>6}\t{line}"
            room += len(numbered.encode()) + 1
            if kept and room > PAGE_BYTES:
                return "\n".join([*kept, f"{goes_on} offset={number}]"])
            kept.append(numbered)
            if len(kept) == window.limit:
                # Only the start of the next line is read: it may be as long as the file.
                ending = [f"{goes_on} offset={number + 1}]"] if next(parts, "") else []
                return "\n".join(kept + ending)
    except _TooFar:
        if not kept:
            raise
        kept.append(f"[what follows lies too far into the file; {_BY_HAND}]")
    if not kept:
        raise BadInput(f"{name}: offset {window.offset} is past the end; accepted: 1 to {number}")
    return "\n".join(kept)


def _rest(parts: Iterator[str], name: str, window: Window) -> str:
    """Line `offset` from `column` on, as much of it as fits on a page."""
    for _ in range(window.offset - 1):
        while (part := next(parts, "")) and not part.endswith("\n"):
            continue
    kept, start, room = "", 0, PAGE_BYTES
    for part in parts:
        line = part.removesuffix("\n")
        piece = clean(line[max(0, window.column - 1 - start) :])
        room -= len(piece.encode())
        if kept and room < 0:
            return f"{kept}\n[line {window.offset} goes on: read it with offset={window.offset}, column={start + 1}]"
        kept, start = kept + piece, start + len(line)
        if part.endswith("\n"):
            break
    if not kept:
        raise BadInput(f"{name}: line {window.offset} has no column {window.column}; accepted: 1 to {start}")
    return f"{kept}\n[end of line {window.offset}]"


def _lines(parts: Iterator[str]) -> Iterator[str]:
    for number, part in enumerate(parts, 1):
        yield clean(part.removesuffix("\n")) + ("" if part.endswith("\n") else _rest_of_line(parts, number))


class _Parts:
    """The text in pieces of at most one line; gives up, and stays so, after SKIP_CHARACTERS."""

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self._passed = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._passed > SKIP_CHARACTERS:
            raise _TooFar
        part = self._text.readline(LINE_CHARACTERS)
        self._passed += len(part)
        if not part:
            raise StopIteration
        return part


def _rest_of_line(parts: Iterator[str], number: int) -> str:
    where = f"read them with offset={number}, column={LINE_CHARACTERS + 1}"
    dropped = 0
    try:
        for part in parts:
            dropped += len(part.removesuffix("\n"))
            if part.endswith("\n"):
                break
    except _TooFar:
        return f" [... over {dropped} more characters in this line: {where}; for what follows {_BY_HAND}]"
    return f" [... {dropped} more characters in this line: {where}]" if dropped else ""
