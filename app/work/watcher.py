"""Which files are new: what lies in the folders, compared with what was seen. The comparison is pure."""

import contextlib
import functools
import hashlib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import translate
from pathlib import Path

from app.clock import milliseconds
from app.sentences import Sentence
from app.work.watching import Watch

UNREADABLE = Sentence("the file cannot be read ({why})")
SKEW = timedelta(minutes=1)
"""A time further ahead than this was written by a clock that is wrong, and says nothing."""

MAX_NEW = 100
MAX_BYTES = 2**31
"""How much one look takes on at most, so that it ends in seconds; the rest is taken by the next."""

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as a folder shows it; times are in nanoseconds since 1970."""

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int

    @property
    def stamp(self) -> tuple[int, int]:
        """What is different once the file is different."""
        return self.size, self.mtime_ns


@dataclass(frozen=True)
class Found:
    """A file that was not seen before as it is now: its content's digest, or why it cannot become work (`fault`)."""

    entry: Entry
    digest: str
    fault: str = ""


def scan(watch: Watch) -> list[Entry]:
    """The folder's files that fit, by name; none if there is no such folder. Hidden ones and links are left out.

    Raises OSError if the folder cannot be read. Blocks.
    """
    fits = _fitting(watch.patterns).match
    entries: list[Entry] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(watch.path) as found:
        for item in found:
            if fits(item.name) and not item.name.startswith(".") and (entry := _entry(item)) is not None:
                entries.append(entry)
    return sorted(entries, key=lambda entry: entry.path)


@functools.lru_cache(maxsize=64)
def _fitting(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{translate(pattern)})" for pattern in patterns), re.IGNORECASE)


def _entry(item: "os.DirEntry[str]") -> Entry | None:
    try:
        status = item.stat(follow_symlinks=False)
    except OSError:  # gone again
        return None
    is_file = stat.S_ISREG(status.st_mode)
    return Entry(item.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns) if is_file else None


def unseen(entries: Sequence[Entry], seen: Mapping[str, tuple[int, int]], now: datetime, settle_s: int) -> list[Entry]:
    """Files that were not seen as they are now and are written to no more, the oldest first. Pure.

    `seen` has each known path's size and modification time. A file whose content or name changed within the last
    `settle_s` seconds waits: a copy that sets the modification time back cannot set the time of the change back.
    """
    fresh = [entry for entry in entries if seen.get(entry.path) != entry.stamp and is_settled(entry, now, settle_s)]
    return sorted(fresh, key=lambda entry: (entry.mtime_ns, entry.path))


def is_settled(entry: Entry, now: datetime, settle_s: int) -> bool:
    present = milliseconds(now) * 1_000_000
    ahead = present + int(SKEW.total_seconds() * 1e9)
    times = [at for at in (entry.mtime_ns, entry.ctime_ns) if at <= ahead]
    return all(at <= present - settle_s * 1_000_000_000 for at in times)


def take(entries: Sequence[Entry]) -> list[Found]:
    """As many of `entries` as one look takes on, with their digests. Blocks: it reads them."""
    found: list[Found] = []
    budget = MAX_BYTES
    for entry in entries[:MAX_NEW]:
        if found and entry.size > budget:
            break
        budget -= entry.size
        found.append(look_into(entry))
    return found


def look_into(entry: Entry) -> Found:
    """The file's digest. What is empty or cannot be read has one of its place and time instead, and a fault."""
    if entry.size == 0:
        return Found(entry, _of_place(entry), Sentence("the file is empty"))
    try:
        return Found(entry, digest_of(Path(entry.path)))
    except OSError as error:
        return Found(entry, _of_place(entry), UNREADABLE.format(why=error.strerror))


def digest_of(path: Path) -> str:
    """SHA-256 of a file's content. Raises OSError. Blocks."""
    digest = hashlib.sha256()
    # A pipe put in the file's place must not hold the reader.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        while piece := file.read(CHUNK_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _of_place(entry: Entry) -> str:
    return "place:" + hashlib.sha256(f"{entry.path}\0{entry.size}\0{entry.mtime_ns}".encode()).hexdigest()
