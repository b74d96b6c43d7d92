"""The daily log: notes of one day in the user's time zone, one file a day."""

import asyncio
import hashlib
import re
from dataclasses import dataclass
from datetime import date, datetime
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

    def __init__(self, folder: Path, zone: ZoneInfo, clock: Clock) -> None:
        self.folder = folder
        self.zone = zone
        self._clock = clock
        self._writing = asyncio.Lock()

    def local(self, moment: datetime) -> datetime:
        return moment.astimezone(self.zone)

    def today(self) -> str:
        return self.local(self._clock.now()).strftime("%Y-%m-%d")

    async def remember(self, text: str, key: str) -> str:
        """Append `text` to today's log once per `key`; answers with a sentence for the model."""
        now = self.local(self._clock.now())
        mark = f"<!-- {hashlib.sha256(key.encode()).hexdigest()[:12]} -->"
        note = " ".join(text.split())
        async with self._writing:
            await asyncio.to_thread(_append, self.folder / f"{now:%Y-%m-%d}.md", f"- {now:%H:%M} {note} {mark}\n", mark)
        return f"Noted in memory/{now:%Y-%m-%d}.md."

    def files(self) -> list[LogFile]:
        """The logs on disk, oldest first. Blocks."""
        paths = sorted(p for p in self.folder.glob("*.md") if LOG_NAME.fullmatch(p.name))
        return [_log_file(path) for path in paths]


def _append(path: Path, line: str, mark: str) -> None:
    old = path.read_text("utf-8", errors="replace") if path.exists() else f"# {path.stem}\n\n"
    if mark not in old:
        write_atomic(path, old + line)


def _log_file(path: Path) -> LogFile:
    content = path.read_bytes()
    return LogFile(path.name, date.fromisoformat(path.stem), len(content), hashlib.sha256(content).hexdigest())
