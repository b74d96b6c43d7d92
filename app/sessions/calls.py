"""Tool calls as rows: planned, started, finished or interrupted; the row is the fact, whoever asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Column, and_, bindparam, func, or_, select, update

from app.db import Tx, moment
from app.events import wire_safe
from app.open_rows import CALL_STARTED
from app.sessions.session import OWNED_FOR
from app.tables import calls, sessions

MAY_HAVE_HAPPENED = (
    "The service stopped while this was running. It may or may not have happened, wholly or in part. "
    "It was not run again. Check the state of things before repeating it."
)


class CallState(StrEnum):
    """A call moves planned -> started -> finished; interrupted when nobody can say how it ended."""

    PLANNED = "planned"
    STARTED = "started"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class CallRecord:
    """One call as recorded. `result` is what the model reads, None while there is none.

    `artifact` is the file in the workspace with the whole of it, or with the picture that was read.
    """

    id: int
    run_id: str
    step_key: str
    name: str
    arguments: str
    effect: str
    state: str
    ok: bool | None
    result: str | None
    boot_id: str | None
    seen_at: datetime | None
    session_id: str
    child_key: str | None = None
    artifact: str | None = None

    @classmethod
    def columns(cls) -> list[Column[Any]]:
        """What to select for `of`, in its order."""
        return [calls.c[name] for name in cls.__dataclass_fields__]

    @classmethod
    def of(cls, row: Sequence[Any]) -> "CallRecord":
        """From a row of `columns`."""
        fields = list(row)
        fields[SEEN_AT] = moment(fields[SEEN_AT])
        return cls(*fields)


SEEN_AT = list(CallRecord.__dataclass_fields__).index("seen_at")

FIND = select(*CallRecord.columns()).where(calls.c.run_id == bindparam("run"), calls.c.step_key == bindparam("step"))
ELSEWHERE = select(*CallRecord.columns()).where(
    calls.c.session_id == bindparam("session"),
    calls.c.run_id != bindparam("run"),
    CALL_STARTED,
    calls.c.child_key.is_(None),
)
START = update(calls).where(calls.c.id == bindparam("call"))
FINISH = START.where(calls.c.state != CallState.FINISHED)
RESULT_BYTES = select(func.coalesce(func.sum(func.length(calls.c.result)), 0)).where(
    calls.c.message_id == select(calls.c.message_id).where(calls.c.id == bindparam("call")).scalar_subquery()
)


def find(tx: Tx, run_id: str, step_key: str) -> CallRecord | None:
    row = tx.execute(FIND, {"run": run_id, "step": step_key}).first()
    return None if row is None else CallRecord.of(row)


def running_elsewhere(tx: Tx, session_id: str, run_id: str, now: datetime) -> CallRecord | None:
    """A call of another run that still runs in this session: two tools of one session never run at once."""
    for row in tx.execute(ELSEWHERE, {"session": session_id, "run": run_id}).all():
        call = CallRecord.of(row)
        if call.seen_at is not None and call.seen_at > now - OWNED_FOR:
            return call
        interrupt(tx, call.id, now)
    return None


def of_run(tx: Tx, run_id: str) -> list[tuple[str, str]]:
    """(tool, state) of a turn's calls in order."""
    query = select(calls.c.name, calls.c.state).where(calls.c.run_id == run_id).order_by(calls.c.id)
    return [(row.name, row.state) for row in tx.execute(query).all()]


def running_children(tx: Tx, session_id: str) -> list[CallRecord]:
    """Calls of this session whose sub-agents still work, whichever turn delegated to them."""
    query = select(*CallRecord.columns()).where(
        calls.c.session_id == session_id, CALL_STARTED, calls.c.child_key.is_not(None)
    )
    return [CallRecord.of(row) for row in tx.execute(query).all()]


def call_off_unborn(tx: Tx, session_id: str, run_id: str) -> None:
    """Take back what older turns than `run_id` delegated and whose sub-agents have not begun.

    A run that is cancelled between its call's start and the invocation never invokes: nobody would ever answer. The
    call is planned as before; a sub-agent that is on its way all the same learns it from `is_called_off`.
    """
    born = select(sessions.c.id).where(sessions.c.key == calls.c.child_key).exists()
    tx.execute(
        update(calls)
        .where(calls.c.session_id == session_id, calls.c.run_id != run_id, CALL_STARTED)
        .where(calls.c.child_key.is_not(None), ~born)
        .values(state=CallState.PLANNED)
    )


def is_called_off(tx: Tx, child_key: str) -> bool:
    """Whether a sub-agent that is about to begin has nobody left who waits for it."""
    state = tx.scalar(select(calls.c.state).where(calls.c.child_key == child_key))
    return state is not None and state != CallState.STARTED


def of_child(tx: Tx, child_key: str) -> CallRecord | None:
    """The call that waits for this sub-agent."""
    row = tx.execute(select(*CallRecord.columns()).where(calls.c.child_key == child_key, CALL_STARTED)).first()
    return None if row is None else CallRecord.of(row)


def start(tx: Tx, call_id: int, boot_id: str, now: datetime, child_key: str | None = None) -> None:
    """Note that the tool is about to run; from here on an unsafe one is never run again."""
    values = {"state": CallState.STARTED, "boot_id": boot_id, "seen_at": now, "started_at": now, "child_key": child_key}
    tx.execute(START, {"call": call_id} | values)


def seen(tx: Tx, call_id: int, now: datetime) -> None:
    tx.execute(update(calls).where(calls.c.id == call_id).values(seen_at=now))


def finish(tx: Tx, call_id: int, *, ok: bool, result: str, now: datetime, artifact: str | None = None) -> None:
    """Record how a call ended. A finished result is a fact; the first record stays."""
    values = {"ok": ok, "result": wire_safe(result), "artifact": artifact, "finished_at": now}
    tx.execute(FINISH, {"call": call_id, "state": CallState.FINISHED} | values)


def result_bytes(tx: Tx, record: CallRecord) -> int:
    """Bytes (about) that the results of the same assistant message take already."""
    return int(tx.scalar(RESULT_BYTES, {"call": record.id}) or 0)


def interrupt(tx: Tx, call_id: int, now: datetime) -> None:
    """Close a started call whose end nobody saw."""
    tx.execute(
        update(calls)
        .where(calls.c.id == call_id, CALL_STARTED)
        .values(state=CallState.INTERRUPTED, ok=False, result=MAY_HAVE_HAPPENED, finished_at=now)
    )


def close_dead(tx: Tx, home_id: str, boot_id: str, now: datetime) -> int:
    """At start-up: close unsafe calls that a dead boot of this home left started, and plan the others again."""
    dead = and_(
        CALL_STARTED,
        calls.c.boot_id.startswith(home_id + ":", autoescape=True),
        calls.c.boot_id != boot_id,
        calls.c.child_key.is_(None),
    )
    closed = tx.execute(
        update(calls)
        .where(dead, or_(calls.c.effect == "unsafe", calls.c.effect.is_(None)))
        .values(state=CallState.INTERRUPTED, ok=False, result=MAY_HAVE_HAPPENED, finished_at=now)
    )
    tx.execute(update(calls).where(dead).values(state=CallState.PLANNED))
    return int(closed.rowcount)
