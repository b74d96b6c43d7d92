"""A page of a file: some of its lines, numbered, without holding the rest of the file in memory."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

from app.agent.output import clean
from app.errors import BadInput
from tools.fence import explained, open_regular
from tools.sniff import SNIFF_BYTES, binary_kind, size
from tools.textfile import encoding_of

PAGE_BYTES = 14_000
"""A page stays under what the act step lets through, so that nothing is cut twice and its last line is true."""

LINE_CHARACTERS = 2000
SKIP_CHARACTERS = 500_000_000


def page(path: Path, name: str, offset: int, limit: int) -> str:
    """Lines `offset` to `offset + limit` of `path` (from 1), numbered, and a last line that says how to go on.

    Raises BadInput when the file is not text or has no such line.
    """
    with open_regular(path, name) as file, explained(name, path):
        total = os.fstat(file.fileno()).st_size
        head = file.read(SNIFF_BYTES)
        if kind := binary_kind(head):
            raise BadInput(
                f"{name} is {kind} ({size(total)}), not text; accepted: files of text. "
                "A program run with bash may be able to convert or describe it."
            )
        if not head:
            return f"({name} is empty)"
        encoding = encoding_of(head, is_whole=False)
        file.seek(len(encoding.bom))
        text = io.TextIOWrapper(file, encoding=encoding.codec, errors="replace", newline=None)
        try:
            return _render(_parts(text, name), name, offset, limit, total)
        finally:
            # The file belongs to the `with` above; a collected wrapper would close it as well.
            text.detach()


def _render(parts: Iterator[str], name: str, offset: int, limit: int, total: int) -> str:
    number = room = 0
    kept: list[str] = []
    for number, line in enumerate(_lines(parts), 1):
        if number < offset:
            continue
        numbered = f"{number:>6}\t{clean(line)}"
        room += len(numbered.encode()) + 1
        if kept and room > PAGE_BYTES:
            return "\n".join([*kept, _goes_on(name, total, number)])
        kept.append(numbered)
        if len(kept) == limit:
            # Only the start of the next line is read: it may be as long as the file.
            ending = [_goes_on(name, total, number + 1)] if next(parts, "") else []
            return "\n".join(kept + ending)
    if not kept:
        raise BadInput(f"{name}: offset {offset} is past the end; accepted: 1 to {number}")
    return "\n".join(kept)


def _goes_on(name: str, total: int, offset: int) -> str:
    return f"[{name} goes on ({size(total)} in all): read it with offset={offset}]"


def _lines(parts: Iterator[str]) -> Iterator[str]:
    for part in parts:
        yield part.removesuffix("\n") if part.endswith("\n") else part + _rest_of_line(parts)


def _parts(text: io.TextIOWrapper, name: str) -> Iterator[str]:
    passed = 0
    while part := text.readline(LINE_CHARACTERS):
        passed += len(part)
        if passed > SKIP_CHARACTERS:
            raise BadInput(f"{name}: what is wanted lies too far into the file; use bash, e.g. sed -n, tail or cut")
        yield part


def _rest_of_line(parts: Iterator[str]) -> str:
    dropped = 0
    for part in parts:
        dropped += len(part.removesuffix("\n"))
        if part.endswith("\n"):
            break
    return f" [... {dropped} more characters in this line]" if dropped else ""
