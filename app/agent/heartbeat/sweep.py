"""The second net: what is open, unowned and not failed is woken again, at most three times a message, and then told."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, or_, select

from app.agent.announce import announce, reply_event, start_message
from app.agent.approvals.closing import sweep_approvals
from app.agent.delegation.tasks import lost_starts
from app.agent.harness import Harness
from app.agent.heartbeat.telling import DUE, tell_kept
from app.agent.heartbeat.unheard import tell_unheard
from app.agent.heartbeat.wakes import EARLY, SIGNAL_AHEAD, fire_due
from app.channels import outbox
from app.db import Tx
from app.events import MessageReceived
from app.open_rows import APPROVAL_PENDING, MESSAGE_OPEN, PART_PENDING, PART_SENDING, TASK_WAITING, TURN_LIVE
from app.sessions import deposit, session
from app.tables import approvals, deliveries, messages, notices, sessions, tasks, turns, wakes


async def sweep(harness: Harness, session_key: str | None = None) -> dict[str, Any]:
    """Send start signals for open messages nobody works on, for unsent parts, and for tasks that should have begun.

    Of one session key, or of all; then wakes that are due fire too. Answers with how many of each there were, as JSON.
    """
    now = harness.clock.now()
    closed = [] if session_key else await harness.db.write(sweep_approvals, harness)
    woken, replies = await harness.db.write(_due, harness, session_key)
    unheard = await harness.db.write(tell_unheard, harness, session_key)
    lost = await harness.db.read(lost_starts, harness, session_key)
    events = closed + woken + unheard + replies + lost
    if events:
        await announce(harness, events)
    if session_key is None and (kept := await harness.db.write(tell_kept, harness)):
        await announce(harness, kept)
    fired = await fire_due(harness) if session_key is None else 0
    return {"woken": len(woken), "unsent": len(replies), "fired": fired, "at": now.isoformat()}


def _anything() -> Any:
    """Whether there is anything for a sweep to do: a quiet beat is to cost next to nothing."""
    parts = (
        select(messages.c.id).where(MESSAGE_OPEN, messages.c.created_at <= bindparam("late")),
        select(deliveries.c.id).where(or_(PART_PENDING, PART_SENDING)),
        select(approvals.c.id).where(APPROVAL_PENDING),
        select(turns.c.run_id).where(TURN_LIVE, turns.c.waiting_until.is_not(None)),
        select(tasks.c.id).where(TASK_WAITING),
        select(notices.c.id).where(*DUE),
        select(wakes.c.id).where(wakes.c.state == "open", wakes.c.due_at <= bindparam("due")),
        select(wakes.c.id).where(
            wakes.c.state == "open", wakes.c.signalled.is_(False), wakes.c.due_at <= bindparam("near")
        ),
    )
    return or_(*(part.exists() for part in parts))


IS_ANYTHING = _anything()
"""True where a sweep has something to do, given `times`."""


def times(now: datetime) -> dict[str, Any]:
    """What IS_ANYTHING is to be given."""
    return {"now": now, "due": now + EARLY, "near": now + SIGNAL_AHEAD, "late": now - session.OWNED_FOR}


async def send_unsent(harness: Harness) -> int:
    """At start-up: send what an earlier process stored and did not get to send: start signals and decisions."""
    decided = await harness.db.write(sweep_approvals, harness)
    if decided:
        await announce(harness, decided)
    rows = await harness.db.read(deposit.unsent_events)
    newest = {row.event["sessionKey"]: row for row in rows}
    for row in rows:
        if row is newest[row.event["sessionKey"]]:
            event = MessageReceived.from_data(row.event | {"messageKey": row.message_key})
            await start_message(harness, event, row.message_key)
        else:  # one turn answers all of a session
            await harness.db.write(deposit.mark_event_sent, row.message_key, harness.clock.now())
    return len(newest)


def _due(tx: Tx, harness: Harness, session_key: str | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Start signals of forgotten messages, and `agent.reply.ready` of chats with unsent parts."""
    woken = [deposit.wake_next(tx, session_id) for session_id in _forgotten(tx, harness, session_key)]
    return [event for event in woken if event is not None], _unsent(tx, harness, session_key)


def _forgotten(tx: Tx, harness: Harness, session_key: str | None) -> Sequence[str]:
    """Sessions with an open message that is older than a minute and no live turn."""
    now = harness.clock.now()
    query = (
        select(sessions.c.id, sessions.c.holder)
        .where(
            sessions.c.id.in_(
                select(messages.c.session_id).where(MESSAGE_OPEN, messages.c.created_at <= now - session.OWNED_FOR)
            ),
            sessions.c.closed_at.is_(None),
        )
        .limit(200)
    )
    if session_key is not None:
        query = query.where(sessions.c.key == session_key)
    rows = (tx.execute(query)).all()
    return [row.id for row in rows if not session.is_live(tx, row.holder, now)]


def _unsent(tx: Tx, harness: Harness, session_key: str | None) -> list[dict[str, Any]]:
    chats = [row for row in outbox.unsent_chats(tx, harness.clock.now()) if session_key in (None, row.session_key)]
    return [reply_event(harness, row, row.session_key) for row in chats]
