"""Watched folders: new files become goals, once for the same content; and all that a beat does for goals."""

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.agent.announce import announce
from app.agent.delegation.supervise import run_monitor
from app.agent.goals.goal import GoalWish, create
from app.agent.goals.orders import continue_goals
from app.agent.harness import Harness
from app.errors import BadInput
from app.failpoints import reach
from app.work import goals
from app.work.library import Shelf
from app.work.pipeline import Pipeline
from app.work.watcher import Entry, Found, scan, take, unseen
from app.work.watching import FILE, Watch, Watching, parse

log = logging.getLogger("moab.work")


@dataclass(frozen=True)
class Looked:
    """What one look at one folder found: all its files that fit, and those of them that are new."""

    watch: Watch
    entries: tuple[Entry, ...]
    found: tuple[Found, ...]


async def keep_working(harness: Harness) -> dict[str, Any]:
    """A beat's work: look for new files, start what is ready, take care of what was lost or stands still. As JSON."""
    return {
        "files": await scan_folders(harness),
        "goals": await continue_goals(harness),
        "monitor": await run_monitor(harness),
    }


async def scan_folders(harness: Harness) -> dict[str, Any]:
    """Make a goal of every new file in the watched folders; how many files were new, and how many became goals.

    A file is noted as seen after its goal is there: a crash in between makes the goal again, which is no other.
    """
    shelf = await asyncio.to_thread(harness.library.look)
    watching = await asyncio.to_thread(watching_of, harness, shelf)
    if not watching.folders:
        return {"new": 0, "goals": 0}
    known = await harness.db.read(goals.seen)
    looks = await asyncio.to_thread(_look, harness, watching, known)
    made = 0
    for look in looks:
        pipeline = shelf.pipelines[look.watch.pipeline]
        for found in look.found:
            made += await _take(harness, pipeline, look.watch, found)
    new = [found.entry for look in looks for found in look.found]
    gone = _gone(looks, known)
    if new or gone:
        unique = list({entry.path: entry for entry in new}.values())
        await harness.db.write(goals.note_seen, unique, gone, harness.clock.now())
    return {"new": len(new), "goals": made}


def watching_of(harness: Harness, shelf: Shelf) -> Watching:
    """The folders to watch; none while the file has a fault, which is logged. Blocks."""
    try:
        text = harness.workspace.text_of(FILE)
        watching = parse(text or "", harness.workspace.root, harness.settings.device_folders, shelf.pipelines)
    except (BadInput, OSError) as error:
        harness.library.complain(f"No folder is watched: {error}")
        return Watching()
    harness.library.complain("")
    return watching


def _look(harness: Harness, watching: Watching, known: dict[str, tuple[int, int]]) -> list[Looked]:
    looks = []
    for watch in watching.folders:
        if watch.path.is_relative_to(os.path.realpath(harness.workspace.root)):
            watch.path.mkdir(parents=True, exist_ok=True)
        try:
            entries = scan(watch)
        except OSError as error:
            log.warning("The folder %s cannot be read (%s); it is looked at again later.", watch.path, error.strerror)
            continue
        fresh = unseen(entries, known, harness.clock.now(), watching.settle_s)
        looks.append(Looked(watch, tuple(entries), tuple(take(fresh))))
    return looks


def _gone(looks: list[Looked], known: dict[str, tuple[int, int]]) -> list[str]:
    """Known paths of the folders that were looked at that are there no more."""
    folders = {str(look.watch.path) for look in looks}
    there = {entry.path for look in looks for entry in look.entries}
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
    )
    made = await harness.db.write(create, harness, pipeline, wish, wish.digest)
    reach("goal.created")
    if made.events:
        await announce(harness, made.events)
    return made.fresh


def _not_accepted(pipeline: Pipeline, entry: Entry) -> str:
    ending = Path(entry.path).suffix.removeprefix(".").lower()
    accepted = [one.removeprefix(".").lower() for one in pipeline.accepts]
    return f"{pipeline.name} does not take .{ending} files" if accepted and ending not in accepted else ""
