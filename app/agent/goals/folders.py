"""Watched folders: new files become goals, once for the same content."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from app.agent.announce import announce
from app.agent.goals.goal import GoalWish, create
from app.agent.goals.watched import watching_of
from app.agent.harness import Harness
from app.failpoints import reach
from app.sentences import Sentence
from app.work import goals
from app.work.pipeline import Pipeline
from app.work.watcher import Entry, Found, scan, take, unseen
from app.work.watching import Watch

NOT_ACCEPTED = Sentence("{pipeline} does not take .{ending} files")

log = logging.getLogger("moab.work")


@dataclass(frozen=True)
class Scanned:
    """One watched folder as it is: all its files that fit, and of how many seconds' rest a file is whole."""

    watch: Watch
    pipeline: Pipeline
    entries: tuple[Entry, ...]
    settle_s: int

    def news(self, known: Mapping[str, tuple[int, int]], now: datetime) -> list[Entry]:
        """The files that are whole and not `known` as they are now, the oldest first."""
        return unseen(self.entries, known, now, self.settle_s)


async def scan_folders(harness: Harness) -> dict[str, Any]:
    """Make a goal of every new file in the watched folders; how many files were new, and how many became goals.

    A file is noted as seen after its goal is there: a crash in between makes the goal again, which is no other.
    """
    scanned = await asyncio.to_thread(scan_watched, harness)
    if not scanned:
        return {"new": 0, "goals": 0}
    known, now = await harness.db.read(goals.seen), harness.clock.now()
    made, new = 0, []
    for one in scanned:
        found = await asyncio.to_thread(take, one.news(known, now))
        for file in found:
            made += await _take(harness, one.pipeline, one.watch, file)
        new += [file.entry for file in found]
    gone = _gone(scanned, known)
    if new or gone:
        unique = list({entry.path: entry for entry in new}.values())
        await harness.db.write(goals.note_seen, unique, gone, harness.clock.now())
    return {"new": len(new), "goals": made}


def has_news(scanned: Sequence[Scanned], known: Mapping[str, tuple[int, int]], now: datetime) -> bool:
    """Whether `scan_folders` would find anything new, or gone. Pure."""
    return any(one.news(known, now) for one in scanned) or bool(_gone(scanned, known))


def scan_watched(harness: Harness) -> list[Scanned]:
    """What lies in the watched folders; none of those that cannot be read now, or wait for a real model. Blocks."""
    shelf = harness.library.look()
    watching = watching_of(harness, shelf)
    scanned = []
    for watch in watching.folders:
        if not os.path.lexists(watch.path) and watch.path.is_relative_to(os.path.realpath(harness.workspace.root)):
            watch.path.mkdir(parents=True)
        if shelf.pipelines[watch.pipeline].needs_model and harness.settings.is_local_model:
            continue  # what lies there becomes a goal once there is one
        try:
            entries = tuple(scan(watch))
        except OSError as error:
            log.warning("The folder %s cannot be read (%s); it is looked at again later.", watch.path, error.strerror)
            continue
        scanned.append(Scanned(watch, shelf.pipelines[watch.pipeline], entries, watching.settle_s))
    return scanned


def _gone(scanned: Sequence[Scanned], known: Mapping[str, tuple[int, int]]) -> list[str]:
    """Known paths of the folders that were looked at that are there no more."""
    folders = {str(one.watch.path) for one in scanned}
    there = {entry.path for one in scanned for entry in one.entries}
    return [path for path in known if path not in there and os.path.dirname(path) in folders]


async def _take(harness: Harness, pipeline: Pipeline, watch: Watch, found: Found) -> bool:
    """Whether the file became a goal: a copy, or the same under another name, is none."""
    fault = found.fault or _not_accepted(pipeline, found.entry)
    wish = GoalWish(
        pipeline=pipeline.name,
        identity=f"file:{pipeline.name}:{found.digest}",
        source=found.entry.path,
        priority=watch.priority,
        digest=found.digest,
        fault=fault,
        watched=True,
    )
    made = await harness.db.write(create, harness, pipeline, wish, wish.digest)
    reach("goal.created")
    if made.events:
        await announce(harness, made.events)
    return made.fresh


def _not_accepted(pipeline: Pipeline, entry: Entry) -> str:
    ending = Path(entry.path).suffix.removeprefix(".").lower()
    accepted = [one.removeprefix(".").lower() for one in pipeline.accepts]
    is_accepted = not accepted or ending in accepted
    return "" if is_accepted else NOT_ACCEPTED.format(pipeline=pipeline.name, ending=ending)
