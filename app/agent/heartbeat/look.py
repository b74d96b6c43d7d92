"""The cheap look that begins every beat: which chores there are. Nothing is done here, and no part fails another."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.exc import DBAPIError

from app.agent.conclude import concluded
from app.agent.goals.folders import Scanned, has_news, scan_watched
from app.agent.harness import Harness
from app.agent.heartbeat.checklist import ROUND, read_checklist, take_look
from app.agent.heartbeat.distillation import take_distillation
from app.agent.heartbeat.learned import take_promotion
from app.agent.heartbeat.sweep import IS_ANYTHING, times
from app.db import Tx
from app.memory import distil, learnings
from app.memory.daily_log import LogFile
from app.sessions import turns
from app.tables import supervision
from app.work import goals, rounds
from app.work.supervision import Executor

log = logging.getLogger("moab.agent")

TIDY_EVERY = timedelta(days=1)

Chore = dict[str, str]

BLIND = ("sweep", "files", "goals", "commands", "monitor")
"""Chores that are done unseen where looking failed: they cost nothing, and what they take care of must not wait."""


@dataclass(frozen=True)
class Part:
    """One thing that is looked at. `see` reads files and blocks; `judge` names chores in a transaction, by what was
    seen. Where either fails, what is `blind` is done all the same.
    """

    judge: Callable[[Tx, Harness, Any], Sequence[Chore]]
    see: Callable[[Harness], Any] = lambda _: None
    blind: Sequence[str] = ()


@dataclass(frozen=True)
class Found:
    """What a look came to."""

    chores: Sequence[Chore] = ()
    faults: Sequence[str] = ()

    def __add__(self, other: "Found") -> "Found":
        return Found((*self.chores, *other.chores), (*self.faults, *other.faults))


async def look_around(harness: Harness, turn_id: str | None, session_key: str = "") -> dict[str, Any]:
    """`{"chores": [{"step": …, "of": …}]}`, `faults` where something could not be looked at, and `signs` where the
    platform asks to wait with the signs at the messages of the turn (see `conclude`).

    After the turn `turn_id` there is less to look at, and with no chores it is settled at once. Any other beat is
    noted. Raises DBAPIError if nothing at all could be asked.
    """
    parts = BEAT if turn_id is None else AFTER_A_TURN
    seen, unseen = await asyncio.to_thread(_see, harness, parts)
    found = unseen + await _judge(harness, seen)
    if turn_id is not None:
        if not found.chores:
            await harness.db.write(turns.settle, turn_id, harness.clock.now())
    signs = await concluded(harness, turn_id) if turn_id is not None else {}
    harness.notifier.publish(session_key)
    return {"chores": list(found.chores)} | ({"faults": list(found.faults)} if found.faults else {}) | signs


class _Anything(Exception):
    """There is something to do."""


async def is_quiet(harness: Harness) -> bool:
    """Whether there is nothing at all to do, which is noted as a beat. Else, or in doubt, nothing is written down: a
    whole beat is to look again.
    """
    seen, unseen = await asyncio.to_thread(_see, harness, BEAT)
    if unseen.faults:
        return False
    try:
        await harness.db.write(_nothing, harness, seen)
    except _Anything:
        return False
    except Exception as error:  # whatever it is, the whole beat holds up nothing else for it, and says so
        log.warning("The heartbeat could not see whether there is anything to do (%s).", error)
        return False
    harness.notifier.publish("")
    return True


def _nothing(tx: Tx, harness: Harness, seen: Sequence[tuple[Part, Any]]) -> None:
    """A chore that is found is not taken up: the transaction is undone."""
    if _chores(tx, harness, seen):
        raise _Anything


def _see(harness: Harness, parts: Sequence[Part]) -> tuple[list[tuple[Part, Any]], Found]:
    """What lies on the disk; blocks."""
    seen, found = [], Found()
    for part in parts:
        try:
            seen.append((part, part.see(harness)))
        except Exception as error:
            found += _fault(part, error)
    return seen, found


async def _judge(harness: Harness, seen: Sequence[tuple[Part, Any]]) -> Found:
    """All parts in one transaction; if one fails there, each in its own."""
    try:
        return Found(await harness.db.write(_chores, harness, seen))
    except Exception as error:
        found, failed = Found(), error
    faults = 0
    for one in seen:
        try:
            found += Found(await harness.db.write(_chores, harness, [one]))
        except Exception as error:
            found, failed, faults = found + _fault(one[0], error), error, faults + 1
    if faults == len(seen) and isinstance(failed, DBAPIError):  # no fault of a part: the database is away
        raise failed
    return found


def _chores(tx: Tx, harness: Harness, seen: Sequence[tuple[Part, Any]]) -> list[Chore]:
    return [chore for part, sight in seen for chore in part.judge(tx, harness, sight)]


def _fault(part: Part, error: Exception) -> Found:
    log.error("A part of the heartbeat's look failed: %s", error, exc_info=error)
    return Found([_chore(name) for name in part.blind], [f"{type(error).__name__}: {error}"[:300]])


def _chore(step: str, of: str = "") -> Chore:
    return {"step": step, "of": of}


WAITING = select(
    IS_ANYTHING.label("sweep"),
    goals.ANY_OPEN.exists().label("goals"),
    select(supervision.c.task_id).where(supervision.c.executor == Executor.COMMAND).exists().label("commands"),
    select(supervision.c.task_id).where(supervision.c.next_check_at <= bindparam("now")).exists().label("monitor"),
    learnings.RIPE.exists().label("promote"),
)
"""Whether anything waits in the database: one question, because it is asked every minute."""


def _waiting(tx: Tx, harness: Harness, _: None) -> list[Chore]:
    now = harness.clock.now()
    row = tx.execute(WAITING, times(now)).one()
    chores = [_chore(name) for name in ("sweep", "goals", "commands", "monitor") if row._mapping[name]]
    return [*chores, _chore("promote")] if row.promote and take_promotion(tx, harness) else chores


def _files(tx: Tx, harness: Harness, scanned: Sequence[Scanned]) -> list[Chore]:
    is_news = bool(scanned) and has_news(scanned, goals.seen(tx), harness.clock.now())
    return [_chore("files")] if is_news else []


def _all_logs(harness: Harness) -> list[LogFile]:
    """The logs of the operator and of everybody else. Blocks."""
    others = (harness.at(principal).daily_log.files() for principal in harness.workspace.principals())
    return [*harness.daily_log.files(), *(one for logs in others for one in logs)]


def _logs(tx: Tx, harness: Harness, logs: Sequence[LogFile]) -> list[Chore]:
    today = harness.daily_log.local(harness.clock.now()).date()
    if not distil.due(logs, {}, today):
        return []
    done = distil.done(tx)
    chores = [_chore("prune", entry.name) for entry in distil.outdated(logs, done, today)]
    due = [] if harness.settings.is_local_model else distil.due(logs, done, today)
    if due and take_distillation(tx, harness):
        chores += [_chore("distil", entry.name) for entry in due]
    return chores


def _now_and_then(tx: Tx, harness: Harness, checklist: str) -> list[Chore]:
    """What has its round; and the note that there was a beat."""
    now = harness.clock.now()
    known = rounds.everything(tx)
    chores = []
    if "tidy" not in known:
        rounds.plan(tx, "tidy", now, now + TIDY_EVERY)
    elif known["tidy"].is_due(now) and rounds.take(tx, "tidy", now, now + TIDY_EVERY):
        chores.append(_chore("tidy"))
    before = known.get(ROUND)
    if checklist and (before is None or before.next_at is None or before.is_due(now)):
        chores += [_chore("checklist")] if take_look(tx, harness, checklist) else []
    rounds.note(tx, "beat", now, None)
    return chores


LOGS = Part(_logs, _all_logs)
BEAT = (
    Part(_waiting, blind=("sweep", "goals", "commands", "monitor")),
    Part(_files, scan_watched, blind=("files",)),
    LOGS,
    Part(_now_and_then, lambda harness: read_checklist(harness.workspace.root)),
)
AFTER_A_TURN = (LOGS,)
