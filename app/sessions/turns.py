"""A turn is a run: its row says whether it lives, what it is doing and how it ended."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from app.db import Tx
from app.events import wire_safe
from app.open_rows import TURN_LIVE
from app.tables import messages, sessions, turns

FIND = select(turns).where(turns.c.run_id == bindparam("run"))


class Outcome(StrEnum):
    """How a run leaves off: it waits for time or other work, for somebody outside, for its own wake; or it is done."""

    SLEEP = "sleep"
    REQUIRES_ACTION = "requires_action"
    RESCHEDULE = "reschedule"
    DONE = "done"


def start(
    tx: Tx,
    run_id: str,
    session_id: str,
    *,
    message_key: str,
    event_id: str | None = None,
    origin: str,
    model: str,
    boot_id: str,
    now: datetime,
) -> None:
    """Write the turn's row; one that is there already stays as it is."""
    if find(tx, run_id) is not None:
        return
    row = {
        "run_id": run_id,
        "session_id": session_id,
        "message_key": message_key,
        "event_id": event_id,
        "origin": origin,
        "state": "live",
        "model": model,
        "boot_id": boot_id,
        "seen_at": now,
        "started_at": now,
    }
    tx.execute(insert(turns), row)


def find(tx: Tx, run_id: str) -> Any | None:
    """The row of a turn, or None."""
    return tx.execute(FIND, {"run": run_id}).first()


def of_event(tx: Tx, event_id: str, run_id: str) -> Any | None:
    """The newest other turn that this very event has started, or None."""
    query = select(turns).where(turns.c.event_id == event_id, turns.c.run_id != run_id)
    return tx.execute(query.order_by(turns.c.run_id.desc()).limit(1)).first()


def newest(tx: Tx, session_id: str) -> Any | None:
    query = select(turns).where(turns.c.session_id == session_id).order_by(turns.c.run_id.desc()).limit(1)
    return tx.execute(query).first()


def note_activity(tx: Tx, run_id: str, activity: str, *, tool: str | None = None, iteration: int | None = None) -> None:
    values: dict[str, Any] = {"activity": activity, "tool": tool}
    if iteration is not None:
        values["iteration"] = iteration
    tx.execute(update(turns).where(turns.c.run_id == run_id).values(values))


def seen(tx: Tx, run_id: str, now: datetime) -> None:
    """Say that a live turn is looked after, by somebody who works for it."""
    tx.execute(update(turns).where(turns.c.run_id == run_id, TURN_LIVE).values(seen_at=now))


def wait_until(
    tx: Tx, run_id: str, until: datetime, outcome: Outcome = Outcome.SLEEP, summary: str | None = None
) -> None:
    """Say that the turn sleeps durably until then, and for what: it stays owned although nobody touches it."""
    values = {"waiting_until": until, "activity": "waiting", "tool": None, "outcome": outcome, "summary": summary}
    tx.execute(update(turns).where(turns.c.run_id == run_id).values(values))


def end(tx: Tx, run_id: str, state: str, now: datetime, error: str | None = None) -> None:
    tx.execute(update(turns).where(turns.c.run_id == run_id).values(state=state, ended_at=now, error=error))


def note_outcome(tx: Tx, run_id: str, outcome: Outcome, summary: str) -> None:
    """Keep how a turn left off, and one paragraph of what it was about."""
    values = {"outcome": outcome, "summary": wire_safe(summary)}
    tx.execute(update(turns).where(turns.c.run_id == run_id).values(values))


def outcomes(tx: Tx, run_ids: Sequence[str]) -> dict[str, tuple[str | None, str | None]]:
    """(outcome, summary) of those of these runs that are turns."""
    query = select(turns.c.run_id, turns.c.outcome, turns.c.summary).where(turns.c.run_id.in_(run_ids))
    return {row.run_id: (row.outcome, row.summary) for row in tx.execute(query)}


def count_announcement(tx: Tx, run_id: str) -> int:
    """A fresh number for the next `agent.reply.ready` of this turn: a repeated event id would start nothing."""
    query = update(turns).where(turns.c.run_id == run_id).values(replies_sent=turns.c.replies_sent + 1)
    count: int = (tx.execute(query.returning(turns.c.replies_sent))).scalar_one()
    return count


def settle(tx: Tx, run_id: str, now: datetime) -> None:
    """Note that what follows a turn is done."""
    tx.execute(update(turns).where(turns.c.run_id == run_id, turns.c.settled_at.is_(None)).values(settled_at=now))


def for_message(tx: Tx, message_key: str) -> Any | None:
    """(state, answered_by, session_id) of a message, or None."""
    query = select(messages.c.state, messages.c.answered_by, messages.c.session_id).where(
        messages.c.message_key == message_key
    )
    return tx.execute(query).first()


def holder(tx: Tx, session_id: str) -> str:
    return tx.scalar(select(sessions.c.holder).where(sessions.c.id == session_id)) or ""
