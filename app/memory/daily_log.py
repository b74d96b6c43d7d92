"""The daily log: notes of one day in the user's time zone, one file a day."""

import asyncio
import hashlib
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


class DailyLog:
    """Appends notes to today's file. Implements `Notes` of the tool contract."""

    def __init__(self, folder: Path, zone: ZoneInfo, clock: Clock, prefix: str = "") -> None:
        """`prefix` stands before the names of the files, where others have logs of the same days."""
        self.folder = folder
        self.zone = zone
        self.prefix = prefix
        self._clock = clock
        self._writing = asyncio.Lock()
        self._known: dict[str, tuple[tuple[int, int], LogFile | None]] = {}

    def of(self, folder: Path, zone: ZoneInfo, prefix: str) -> "DailyLog":
        """The log of somebody else, or of somebody elsewhere; they are written one after the other."""
        other = DailyLog(folder, zone, self._clock, prefix)
        other._writing = self._writing
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
        known = {}
        for path in sorted(self.folder.glob("*.md")):
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            before = self._known.get(path.name)
            known[path.name] = (
                before if before is not None and before[0] == stamp else (stamp, _log_file(path, self.prefix))
            )
        self._known = known
        return [log for _, log in known.values() if log is not None]


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
