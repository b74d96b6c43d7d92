"""The daily log: notes of one day in the user's time zone, one file a day."""

import asyncio
import hashlib
import os
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from app.clock import Clock
from app.files import write_atomic

LOG_NAME = re.compile(r"\d{4}-\d{2}-\d{2}\.md")


@dataclass(frozen=True)
class LogFile:
    """One day's log as found on disk; `size` in bytes, `digest` changes with the content."""

    name: str
    day: date
    size: int
    digest: str


_Known = dict[str, tuple[tuple[int, int], LogFile | None]]
"""Each file by its name: its time and size when it was read, and what was read."""


class DailyLog:
    """Appends notes to today's file. Implements `Notes` of the tool contract."""

    def __init__(self, folder: Path, zone: ZoneInfo, clock: Clock, prefix: str = "") -> None:
        """`prefix` stands before the names of the files, where others have logs of the same days."""
        self.folder = folder
        self.zone = zone
        self.prefix = prefix
        self._clock = clock
        self._writing = asyncio.Lock()
        self._known: _Known = {}
        self._read: dict[Path, _Known] = {folder: self._known}

    def of(self, folder: Path, zone: ZoneInfo, prefix: str) -> "DailyLog":
        """The log of somebody else, or of somebody elsewhere; they are written one after the other.

        What was read of a folder is known to all that are made of one another: no file is read again unchanged.
        """
        other = DailyLog(folder, zone, self._clock, prefix)
        other._writing, other._read = self._writing, self._read
        other._known = self._read.setdefault(folder, {})
        return other

    def local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone)

    def today(self) -> str:
        return self.local(self._clock.now()).strftime("%Y-%m-%d")

    async def remember(self, text: str, key: str) -> str:
        """Append `text` to today's log once per `key`, also across midnight; answers with a sentence for the model."""
        now = self.local(self._clock.now())
        mark = f"<!-- {hashlib.sha256(key.encode()).hexdigest()[:12]} -->"
        line = f"- {now:%H:%M} {' '.join(text.split())} {mark}\n"
        days = [f"{day:%Y-%m-%d}.md" for day in (now, now - timedelta(days=1))]
        async with self._writing:
            name = await asyncio.to_thread(_append, self.folder, days, line, mark)
        return f"Noted in memory/{name}."

    def files(self) -> list[LogFile]:
        """The logs on disk, oldest first; what only looks like one is left out. Blocks. Unchanged ones are not read."""
        known: _Known = {}
        for entry in self._entries():
            found = entry.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            before = self._known.get(entry.name)
            is_same = before is not None and before[0] == stamp
            known[entry.name] = before if is_same and before else (stamp, _log_file(Path(entry.path), self.prefix))
        for name in self._known.keys() - known.keys():
            self._known.pop(name, None)
        self._known.update(known)
        return [log for _, log in known.values() if log is not None]

    def _entries(self) -> "list[os.DirEntry[str]]":
        try:
            with os.scandir(self.folder) as found:
                return sorted((one for one in found if one.name.endswith(".md")), key=lambda one: one.name)
        except (FileNotFoundError, NotADirectoryError):
            return []


def _append(folder: Path, names: list[str], line: str, mark: str) -> str:
    """Add `line` to the first of the files, unless one of them has its mark; the name of the file that has it."""
    texts = [path.read_text("utf-8", errors="replace") if (path := folder / n).exists() else "" for n in names]
    for name, text in zip(names, texts, strict=True):
        if mark in text:
            return name
    write_atomic(folder / names[0], (texts[0] or f"# {names[0].removesuffix('.md')}\n\n") + line)
    return names[0]


def _log_file(path: Path, prefix: str) -> LogFile | None:
    if not LOG_NAME.fullmatch(path.name) or not path.is_file():
        return None
    try:
        day = date.fromisoformat(path.stem)
    except ValueError:  # the 30th of February
        return None
    content = path.read_bytes()
    return LogFile(prefix + path.name, day, len(content), hashlib.sha256(content).hexdigest())
