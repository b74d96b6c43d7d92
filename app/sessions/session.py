"""Who holds a session: the claim is a fencing token, the newest run id wins."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, bindparam, func, select, update

from app.db import Tx, insert_if_absent, moment
from app.open_rows import CALL_STARTED, MESSAGE_OPEN, TURN_LIVE
from app.tables import calls, messages, sessions, turns

OWNED_FOR = timedelta(seconds=60)
"""A turn or a call counts as worked on while it was seen within this time."""

STALE_AFTER = timedelta(minutes=10)
"""A turn interrupted longer ago is offered to the person, not resumed."""

STOPPED = "~"
"""Appended to the holder by /stop and /new: greater than that run's id, smaller than any later one."""


ENDED_BY = {"superseded": "A newer turn took its work over.", "stopped": "It was stopped by the user."}
"""Why a turn ended that did not come to an end by itself."""


class Claim(StrEnum):
    """What a step learns when it asks for the session."""

    HELD = "held"
    SUPERSEDED = "superseded"
    STOPPED = "stopped"
    STALE = "stale"
    BUSY = "busy"


# Every step asks these: a statement that is made once costs a third of one that is made anew each time.
OPEN = select(sessions.c.id).where(sessions.c.key == bindparam("of_key"), sessions.c.closed_at.is_(None))
OPEN_TO_WRITE = OPEN.with_for_update()
HEAD = select(sessions.c.head_id).where(sessions.c.id == bindparam("session"))
HOLDING = (
    select(
        sessions.c.holder,
        sessions.c.closed_at,
        turns.c.run_id,
        turns.c.state,
        turns.c.boot_id,
        turns.c.seen_at,
        turns.c.waiting_until,
    )
    .select_from(
        sessions.outerjoin(turns, and_(turns.c.run_id == bindparam("run"), turns.c.session_id == sessions.c.id))
    )
    .where(sessions.c.id == bindparam("session"))
    .with_for_update(of=sessions)
)
TURN = update(turns).where(turns.c.run_id == bindparam("run"))


def find(tx: Tx, key: str) -> str | None:
    """The id of the open session of `key`."""
    found: str | None = tx.scalar(OPEN, {"of_key": key})
    return found


def key_of(tx: Tx, session_id: str) -> str:
    return tx.scalar(select(sessions.c.key).where(sessions.c.id == session_id)) or ""


def open_session(tx: Tx, key: str, new_id: str, now: datetime, parent_id: str | None = None) -> str:
    """The id of the open session of `key`; makes one called `new_id` if there is none.

    It stays open until this transaction ends: whoever is closing it meanwhile is waited for, and closed sessions get
    no new input.
    """
    found: str | None = tx.scalar(OPEN_TO_WRITE, {"of_key": key})
    if found is not None:
        return found
    row = {"id": new_id, "key": key, "created_at": now, "parent_id": parent_id}
    if insert_if_absent(tx, sessions, row):
        return new_id
    return find(tx, key) or new_id  # another process opened it between our look and our insert


def is_open(tx: Tx, session_id: str) -> bool:
    return (
        tx.scalar(select(sessions.c.id).where(sessions.c.id == session_id, sessions.c.closed_at.is_(None))) is not None
    )


def claim(
    tx: Tx,
    session_id: str,
    run_id: str,
    *,
    boot_id: str,
    now: datetime,
    steers: bool = True,
    doing: Mapping[str, Any] | None = None,
) -> Claim:
    """Take or keep the session for `run_id`. Older holder: taken; same: kept; newer: the answer says so.

    A run that does not steer takes the session only when no owned turn is live. Keeping it renews the turn's
    `seen_at` and notes what the turn is `doing` (columns activity, tool, iteration).
    """
    row = tx.execute(HOLDING, {"session": session_id, "run": run_id}).one()
    if row.closed_at is not None or row.holder == run_id + STOPPED:
        _end_turn(tx, run_id, "stopped", now)
        return Claim.STOPPED
    if row.holder > run_id:
        _end_turn(tx, run_id, "superseded", now)
        return Claim.SUPERSEDED
    if row.holder == run_id:
        return _keep(tx, row, boot_id, now, doing or {})
    if not steers and is_live(tx, row.holder, now):
        return Claim.BUSY
    tx.execute(update(sessions).where(sessions.c.id == session_id).values(holder=run_id))
    _end_turn(tx, row.holder, "superseded", now)
    return Claim.HELD


def _keep(tx: Tx, turn: Any, boot_id: str, now: datetime, doing: Mapping[str, Any]) -> Claim:
    if turn.run_id is None:
        return Claim.HELD
    last_seen = max(t for t in (moment(turn.seen_at), moment(turn.waiting_until)) if t is not None)
    if turn.state == "live" and turn.boot_id != boot_id and last_seen < now - STALE_AFTER:
        return Claim.STALE
    seen = {"seen_at": now, "boot_id": boot_id, "waiting_until": None, "outcome": None, "summary": None}
    tx.execute(TURN, {"run": turn.run_id} | seen | dict(doing))
    return Claim.HELD


def _end_turn(tx: Tx, run_id: str, state: str, now: datetime) -> None:
    tx.execute(
        update(turns)
        .where(turns.c.run_id == run_id.removesuffix(STOPPED), TURN_LIVE)
        .values(state=state, ended_at=now, settled_at=now, outcome="done", summary=ENDED_BY.get(state))
    )


def is_live(tx: Tx, run_id: str, now: datetime) -> bool:
    """Whether the turn is live and owned: seen within the last minute, or in a durable wait, or its sub-agent is."""
    query = select(turns.c.state, turns.c.seen_at, turns.c.waiting_until).where(turns.c.run_id == run_id)
    turn = tx.execute(query).first()
    if turn is None or turn.state != "live":
        return False
    waiting = moment(turn.waiting_until)
    seen = moment(turn.seen_at)
    if (waiting is not None and waiting > now) or (seen is not None and seen > now - OWNED_FOR):
        return True
    query = (
        select(sessions.c.holder)
        .join(calls, calls.c.child_key == sessions.c.key)
        .where(calls.c.run_id == run_id, CALL_STARTED)
    )
    return any(is_live(tx, child, now) for child in tx.scalars(query).all())


def stop(tx: Tx, session_id: str, now: datetime, behind: int | None = None) -> str | None:
    """Take the session away from whoever holds it and close its open messages; the run id of the stopped turn.

    What came in after the row `behind` is not meant: such a message stays open, and the turn that it started goes on.
    """
    holder = tx.scalar(select(sessions.c.holder).where(sessions.c.id == session_id).with_for_update())
    query = (
        select(turns.c.run_id, messages.c.id)
        .outerjoin(messages, messages.c.message_key == turns.c.message_key)
        .where(turns.c.session_id == session_id, TURN_LIVE)
        .order_by(turns.c.run_id.desc())
    )
    live = tx.execute(query).first()
    is_meant = live is None or behind is None or live.id is None or live.id <= behind
    if is_meant and holder and not holder.endswith(STOPPED):
        tx.execute(update(sessions).where(sessions.c.id == session_id).values(holder=holder + STOPPED))
    if is_meant and live is not None:
        _end_turn(tx, live.run_id, "stopped", now)
    _stop_tools(tx, session_id, live.run_id if live is not None and not is_meant else None)
    closing = update(messages).where(messages.c.session_id == session_id, MESSAGE_OPEN)
    tx.execute((closing if behind is None else closing.where(messages.c.id <= behind)).values(state="stopped"))
    return live.run_id if is_meant and live is not None else None


def _stop_tools(tx: Tx, session_id: str, spared: str | None) -> None:
    """A tool may still run for a turn that was taken over: whoever watches it sees that its turn is stopped."""
    running = select(calls.c.run_id).where(calls.c.session_id == session_id, CALL_STARTED)
    tx.execute(
        update(turns)
        .where(turns.c.run_id.in_(running), turns.c.state == "superseded", turns.c.run_id != (spared or ""))
        .values(state="stopped")
    )


def stop_turn(tx: Tx, run_id: str, now: datetime) -> None:
    """Stop the session of a live turn; any other run has nothing to stop."""
    session_id = tx.scalar(select(turns.c.session_id).where(turns.c.run_id == run_id, TURN_LIVE))
    if session_id is not None:
        stop(tx, session_id, now)


def release(tx: Tx, session_id: str, now: datetime) -> None:
    """Take the session away from its turn without closing its messages: a newer turn answers them."""
    holder = tx.scalar(select(sessions.c.holder).where(sessions.c.id == session_id).with_for_update())
    if holder and not holder.endswith(STOPPED):
        tx.execute(update(sessions).where(sessions.c.id == session_id).values(holder=holder + STOPPED))
        _end_turn(tx, holder, "superseded", now)


def close(tx: Tx, session_id: str, now: datetime) -> None:
    """End a session; the next message of its key opens a fresh one, late results stay here."""
    tx.execute(update(sessions).where(sessions.c.id == session_id).values(closed_at=now))


def head_of(tx: Tx, session_id: str) -> int | None:
    """The newest message of a session's transcript."""
    head: int | None = tx.scalar(HEAD, {"session": session_id})
    return head


def choices(tx: Tx, session_id: str) -> tuple[str, str]:
    """The model and the level of thinking that people chose for a session; "" where they did not."""
    row = tx.execute(select(sessions.c.model, sessions.c.think).where(sessions.c.id == session_id)).first()
    return (row.model or "", row.think or "") if row is not None else ("", "")


def is_spoken(tx: Tx, session_id: str) -> bool:
    """Whether people want to hear the answers of a session."""
    return bool(tx.scalar(select(sessions.c.spoken).where(sessions.c.id == session_id)))


def choose_as(tx: Tx, session_id: str, other_id: str) -> None:
    """Give a session the model and the level of thinking that people chose for another one."""
    model, think = choices(tx, other_id)
    tx.execute(update(sessions).where(sessions.c.id == session_id).values(model=model or None, think=think or None))


def count_messages(tx: Tx, session_id: str) -> int:
    return tx.scalar(select(func.count()).select_from(messages).where(messages.c.session_id == session_id)) or 0
