"""What the heartbeat decides about order in the house: which chores are due, and the small ones of them done."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import delete

from app.agent.conclude import conclude
from app.agent.harness import Harness
from app.agent.heartbeat.checklist import look_at_checklist, read_checklist, take_look
from app.agent.heartbeat.distillation import distil_log, take_distillation
from app.agent.heartbeat.learned import promote_ripe, take_promotion
from app.db import Tx
from app.memory import distil
from app.memory.daily_log import LogFile
from app.memory.memory_file import prune_versions
from app.memory.workspace import OWN_FOLDER
from app.sessions import albums, turns
from app.tables import backups
from app.work import rounds, wakes

KEEP_BACKUPS_FOR = timedelta(days=14)
"""/undo files puts back what the last turn wrote; nobody looks for older copies."""

KEEP_ARTIFACTS_FOR = timedelta(days=30)
TIDY_EVERY = timedelta(days=1)

Chore = Callable[[Harness, str, str], Awaitable[Mapping[str, Any]]]


async def look_around(harness: Harness, turn_id: str | None, session_key: str = "") -> dict[str, Any]:
    """Cheap test first: `{"chores": [{"step": …, "of": …}]}`. With none, the turn `turn_id` is settled at once.

    A beat that no turn has started is noted, with when the next one comes.
    """
    logs = await asyncio.to_thread(_all_logs, harness)
    checklist = await asyncio.to_thread(read_checklist, harness.workspace.root) if turn_id is None else ""
    chores = await harness.db.write(_decide, harness, turn_id, logs, checklist)
    harness.notifier.publish(session_key)
    if turn_id is not None:
        await conclude(harness, turn_id)
    return {"chores": chores}


def _all_logs(harness: Harness) -> list[LogFile]:
    """The logs of the operator and of everybody else. Blocks."""
    others = (harness.at(principal).daily_log.files() for principal in harness.workspace.principals())
    return [*harness.daily_log.files(), *(log for logs in others for log in logs)]


def _decide(tx: Tx, harness: Harness, turn_id: str | None, logs: list[LogFile], checklist: str) -> list[dict[str, str]]:
    now = harness.clock.now()
    today = harness.daily_log.local(now).date()
    done = distil.done(tx)
    chores = [{"step": "prune", "of": entry.name} for entry in distil.outdated(logs, done, today)]
    due = [] if harness.settings.is_local_model else distil.due(logs, done, today)
    if due and take_distillation(tx, harness):
        chores += [{"step": "distil", "of": entry.name} for entry in due]
    if turn_id is None:
        chores += _only_now_and_then(tx, harness, now, checklist)
        note_beat(tx, harness, now)
    elif not chores:
        turns.settle(tx, turn_id, now)
    return chores


def _only_now_and_then(tx: Tx, harness: Harness, now: datetime, checklist: str) -> list[dict[str, str]]:
    rounds.plan(tx, "tidy", now, now + TIDY_EVERY)
    taken = {
        "tidy": rounds.take(tx, "tidy", now, now + TIDY_EVERY),
        "checklist": take_look(tx, harness, checklist),
        "promote": take_promotion(tx, harness),
    }
    return [{"step": name, "of": ""} for name, is_due in taken.items() if is_due]


def note_beat(tx: Tx, harness: Harness, now: datetime) -> None:
    """Write down that there was a beat, and when the next one is to come."""
    settings = harness.settings
    rounds.note(tx, "beat", now, wakes.next_instant(settings.beat_cron, settings.timezone, now))


async def prune_log(harness: Harness, _run_id: str, name: str) -> dict[str, Any]:
    """Delete a log that is old and distilled."""
    principal, _, file = name.rpartition("/")
    await asyncio.to_thread((harness.at(principal).daily_log.folder / file).unlink, missing_ok=True)
    return {"pruned": name}


async def _distil(harness: Harness, run_id: str, name: str) -> dict[str, Any]:
    return await distil_log(harness, name, run_id)


async def tidy(harness: Harness, _run_id: str, _of: str) -> dict[str, Any]:
    """Delete copies for /undo, large outputs and versions of MEMORY.md that nobody will look for any more; counts."""
    now = harness.clock.now()
    own = harness.workspace.root / OWN_FOLDER
    copies = await asyncio.to_thread(_delete_older, own / "backups", (now - KEEP_BACKUPS_FOR).timestamp())
    await harness.db.write(_forget_backups, now - KEEP_BACKUPS_FOR)
    await harness.db.write(albums.forget_old, now)
    outputs = await asyncio.to_thread(
        _delete_older, harness.workspace.artifacts, (now - KEEP_ARTIFACTS_FOR).timestamp()
    )
    memories = await asyncio.to_thread(prune_versions, harness.workspace.root)
    return {"backups": copies, "artifacts": outputs, "memories": memories}


def _delete_older(folder: Path, before: float) -> int:
    """Delete files and folders in `folder` that were last changed before this time; how many. Blocks."""
    if not folder.is_dir():
        return 0
    old = [path for path in folder.iterdir() if not path.is_symlink() and path.stat().st_mtime < before]
    for path in old:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return len(old)


def _forget_backups(tx: Tx, before: datetime) -> None:
    tx.execute(delete(backups).where(backups.c.created_at < before))


async def settle(harness: Harness, turn_id: str, session_key: str = "") -> dict[str, Any]:
    """Note that what follows a turn is done, so that a one-shot client may leave."""
    await harness.db.write(turns.settle, turn_id, harness.clock.now())
    harness.notifier.publish(session_key)
    return {"settled": turn_id}


CHORES: dict[str, Chore] = {
    "prune": prune_log,
    "distil": _distil,
    "tidy": tidy,
    "checklist": look_at_checklist,
    "promote": promote_ripe,
}
"""What each chore's step does, given the run's id and what it is of."""
