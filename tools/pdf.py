"""The text of a PDF, page by page, taken out by a program of its own that is stopped when it takes too long."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from app.agent.output import clean
from app.errors import BadInput
from tools.process import Ended, run_process

PROGRAM = Path(__file__).with_name("pdf_text.py")
"""Not imported: its library is large, and only the program needs it."""

EXTRACT_S = 20.0
MAX_OUTPUT_BYTES = 20_000_000
_PAGES = re.compile(r"(\d{1,6})(?:\s*(-)\s*(\d{1,6})?)?")


@dataclass
class _Pages:
    """Takes what the program prints, line by line, until `room` bytes of text are there."""

    name: str
    room: int
    count: int = 0
    fault: str = ""
    shown: list[str] = field(default_factory=list)
    last: int = 0
    is_full: bool = False
    _rest: bytes = b""

    def take(self, data: bytes) -> bool:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return len(self._rest) <= MAX_OUTPUT_BYTES and all(self._take(line) for line in lines)

    def _take(self, line: bytes) -> bool:
        try:
            said = json.loads(line)
        except ValueError:  # the last words of a program that died
            return True
        if "page" not in said:
            self.count, self.fault = said.get("pages", 0), said.get("fault", "")
            return True
        text = f"[page {said['page']} of {self.count}]\n{_text_of(said)}"
        self.room -= len(text.encode()) + 1
        if self.shown and self.room < 0:
            self.is_full = True
            return False
        self.shown.append(text)
        self.last = said["page"]
        return True


def _text_of(page: Mapping[str, Any]) -> str:
    if "fault" in page:
        return f"(this page cannot be read: {clean(page['fault'])})"
    left_out = f"\n[... {page['left_out']} more characters on this page]" if page["left_out"] else ""
    return (clean(page["text"]).strip() or "(no text on this page: perhaps a picture)") + left_out


def page_range(pages: str, name: str) -> tuple[int, int]:
    """First and last page (0: to the end) that `pages` asks for: "3", "3-7", "3-", or "" for all."""
    if not pages.strip():
        return 1, 0
    found = _PAGES.fullmatch(pages.strip())
    first = int(found[1]) if found else 0
    last = (int(found[3]) if found[3] else 0 if found[2] else first) if found else 0
    if first < 1 or (last and last < first):
        raise BadInput(f"{name}: {pages!r} is no range of pages; accepted: 3, 3-7 or 3-")
    return first, last


async def pdf_pages(file: BinaryIO, name: str, pages: str, room: int) -> str:
    """The text of the `pages` of the PDF in `file` (a regular file), as many whole ones as fit into `room` bytes.

    At least one page is given. `name` is for the sentences; raises BadInput where nothing can be read.
    """
    first, last = page_range(pages, name)
    found = _Pages(name, room)
    # -I: neither the workspace nor the environment may slip a module in.
    argv = [sys.executable, "-I", "-W", "ignore", str(PROGRAM), str(first), str(last)]
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # what the program inherits is the place in the file, not our buffer
    ended = await run_process(
        argv, cwd=Path("/"), environment={}, on_output=found.take, timeout_s=EXTRACT_S, stdin=file.fileno()
    )
    if found.fault or not found.count:
        raise BadInput(f"{name} is a PDF whose text cannot be read: {_reason(found, ended)}")
    if not found.shown and first > found.count:
        raise BadInput(f"{name} has {found.count} pages; accepted: 1 to {found.count}")
    return "\n".join(found.shown + _remarks(found, ended, last))


def _reason(found: _Pages, ended: Ended) -> str:
    if ended.timed_out:
        return f"it took longer than {EXTRACT_S:g} s"
    return clean(found.fault) or "it is damaged or too large"


def _remarks(found: _Pages, ended: Ended, last: int) -> list[str]:
    following = found.last + 1 if found.shown else 1
    if found.is_full:
        return [f"[{found.name} goes on: read it with pages={following}-{last or found.count}]"]
    if ended.timed_out or ended.exit_code:
        # Whatever came before is true; the page it broke off at may do so again.
        return [f"[{found.name}: page {following} could not be read, go on with pages={following + 1}-]"]
    return []
