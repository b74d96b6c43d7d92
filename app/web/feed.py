"""What clients that fetch see of a session: its new replies, what its turn does, and whether work is left."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy import func, select

from app.agent.harness import Harness
from app.channels import outbox
from app.db import Tx
from app.events import CommandReceived, MessageReceived
from app.open_rows import MESSAGE_OPEN, TURN_LIVE
from app.sessions import approvals, turns
from app.tables import deliveries, messages, sessions
from app.tables import turns as turn_rows

IsGone = Callable[[], Awaitable[bool]]

LOOK_AT_LEAST_EVERY_S = 0.5
UNSENT = ("pending", "sending")
FINAL = {"answered": "answered", "failed": "failed", "stopped": "stopped"}


async def feed(harness: Harness, session_key: str, after: int, wait_s: float, is_gone: IsGone) -> dict[str, Any]:
    """What is new after the cursor `after` (-1: from now); returns early when anything changes.

    It also returns when the client `is_gone` or the service stops: an open look must not hold up the shutdown.
    """
    deadline = harness.clock.now().timestamp() + wait_s
    first: dict[str, Any] | None = None
    while True:
        found = await harness.db.read(_feed, session_key, after)
        first = first or found
        left = deadline - harness.clock.now().timestamp()
        found["activity"]["partial"] = harness.notifier.partial(session_key)
        if found["items"] or left <= 0 or found["activity"] != first["activity"] or found["open"] != first["open"]:
            return found
        if found["settled"] != first["settled"] or harness.notifier.closed or await is_gone():
            return found
        await harness.notifier.wait(session_key, min(left, LOOK_AT_LEAST_EVERY_S))


def _feed(tx: Tx, session_key: str, after: int) -> dict[str, Any]:
    ids = _sessions(tx, session_key)
    horizon = _horizon(tx, ids)
    rows = [row for row in outbox.since(tx, ids, after) if row.id <= horizon] if after >= 0 else []
    items = [{"id": row.id, "kind": row.kind, "text": row.text, "turnId": row.run_id} for row in rows]
    pending = _count(tx, deliveries, deliveries.c.state.in_(UNSENT), ids)
    unanswered = _count(tx, messages, MESSAGE_OPEN, ids)
    cursor = max([row.id for row in rows], default=after) if after >= 0 else horizon
    return {
        "cursor": cursor,
        "items": items,
        "activity": _activity(tx, ids),
        "open": unanswered,
        "settled": not (pending or unanswered) and not _unsettled(tx, ids),
    }


def _horizon(tx: Tx, ids: Sequence[str]) -> int:
    """The id up to which nothing is still to come in the mailboxes: a cursor beyond it would miss a late part."""
    of_sessions = deliveries.c.session_id.in_(ids)
    waiting = select(func.min(deliveries.c.id)).where(
        of_sessions, deliveries.c.state.in_(UNSENT), deliveries.c.channel.in_(outbox.REPEATABLE)
    )
    first = tx.scalar(waiting)
    return first - 1 if first is not None else tx.scalar(select(func.max(deliveries.c.id)).where(of_sessions)) or 0


def _sessions(tx: Tx, session_key: str) -> Sequence[str]:
    return (tx.scalars(select(sessions.c.id).where(sessions.c.key == session_key))).all()


def _count(tx: Tx, table: Any, condition: Any, ids: Sequence[str]) -> int:
    query = select(func.count()).select_from(table).where(condition, table.c.session_id.in_(ids))
    return tx.scalar(query) or 0


def _activity(tx: Tx, ids: Sequence[str]) -> dict[str, Any]:
    query = (
        select(turn_rows.c.activity, turn_rows.c.tool, turn_rows.c.iteration)
        .where(turn_rows.c.session_id.in_(ids), TURN_LIVE)
        .order_by(turn_rows.c.run_id.desc())
        .limit(1)
    )
    row = (tx.execute(query)).first()
    if row is None:
        return {"state": "idle", "tool": None, "iteration": 0}
    return {"state": row.activity, "tool": row.tool, "iteration": row.iteration}


def _unsettled(tx: Tx, ids: Sequence[str]) -> bool:
    query = select(turn_rows.c.run_id).where(turn_rows.c.session_id.in_(ids), turn_rows.c.settled_at.is_(None)).limit(1)
    return tx.scalar(query) is not None


async def wait_for_answer(harness: Harness, event: MessageReceived | CommandReceived, wait_s: float) -> dict[str, Any]:
    """The answer to one input within `wait_s` seconds: status answered, failed or stopped with `reply`, or pending.

    `asked`: the turn waits for a person to decide on `requestId` first; `reply` is the question.
    """
    deadline = harness.clock.now().timestamp() + wait_s
    while True:
        look = _command_answer if isinstance(event, CommandReceived) else _answer
        answer = await harness.db.read(look, event.message_key or "")
        if answer is not None:
            return answer
        left = deadline - harness.clock.now().timestamp()
        if left <= 0 or harness.notifier.closed:
            return {"status": "pending", "turnId": None, "reply": None}
        await harness.notifier.wait(event.session_key, min(left, LOOK_AT_LEAST_EVERY_S))


def _command_answer(tx: Tx, message_key: str) -> dict[str, Any] | None:
    query = select(deliveries.c.text).where(deliveries.c.key == f"{message_key}/command/0")
    text = tx.scalar(query)
    return None if text is None else {"status": "answered", "turnId": None, "reply": text}


def _works_on(tx: Tx, run_id: str | None) -> bool:
    """Whether the turn that took a message up (an answer to its question, that is) has yet to reply."""
    turn = turns.find(tx, run_id) if run_id else None
    return turn is not None and turn.state == "live"


def _answer(tx: Tx, message_key: str) -> dict[str, Any] | None:
    row = turns.for_message(tx, message_key)
    if row is None:
        return None
    if row.state not in FINAL or _works_on(tx, row.answered_by):
        asked = approvals.prompted(tx, row.session_id)
        return asked and {"status": "asked", "turnId": None, "reply": asked.text, "requestId": asked.id}
    query = (
        select(deliveries.c.text)
        .where(deliveries.c.run_id == row.answered_by, deliveries.c.text != "")
        .order_by(deliveries.c.id)
        .limit(1)
    )
    text = tx.scalar(query) if row.answered_by else None
    return {"status": FINAL[row.state], "turnId": row.answered_by, "reply": text}
