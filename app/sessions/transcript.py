"""What was said and done in a session, as the model will read it: a chain of messages, each with its calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, insert, literal, select, update

from app.db import Tx, moment
from app.events import wire_safe
from app.sessions import deposit, session
from app.sessions.calls import CallRecord, CallState
from app.tables import calls, messages

WINDOW = 2_000
"""How many of a session's newest messages are read for one thought."""

SUMMARY = "summary"
"""The role of a message that stands for earlier ones: its data names the first and the last it `covers`."""


@dataclass(frozen=True)
class Entry:
    """One message of the transcript. `calls` are the tool calls of an assistant message, in order."""

    id: int
    role: str
    text: str
    at: datetime
    calls: tuple[CallRecord, ...] = ()
    origin: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


def _chain() -> Any:
    """Statement: the messages from `head` back to the first, oldest first; only what an Entry holds, no wide JSON."""
    columns = (
        messages.c.id,
        messages.c.role,
        messages.c.text,
        messages.c.created_at,
        messages.c.origin,
        messages.c.data,
    )
    start = select(messages.c.id, messages.c.parent_id, literal(1).label("depth")).where(
        messages.c.id == bindparam("head")
    )
    chain = start.cte("chain", recursive=True)
    parents = select(messages.c.id, messages.c.parent_id, chain.c.depth + 1).join(
        chain, messages.c.id == chain.c.parent_id
    )
    chain = chain.union_all(parents.where(chain.c.depth < WINDOW))
    return select(*columns).join(chain, messages.c.id == chain.c.id).order_by(chain.c.depth.desc())


CHAIN = _chain()
ADD = insert(messages).returning(messages.c.id)
OF_STEP = select(messages.c.id).where(messages.c.run_id == bindparam("run"), messages.c.step_key == bindparam("step"))
CALLS_SINCE = (
    select(calls.c.message_id, *CallRecord.columns())
    .where(calls.c.session_id == bindparam("session"), calls.c.message_id >= bindparam("first"))
    .order_by(calls.c.message_id, calls.c.position)
)


@dataclass(frozen=True)
class NewCall:
    """A call the model asked for, before anything was done about it."""

    step_key: str
    provider_id: str
    name: str
    arguments: str
    effect: str


def load(tx: Tx, session_id: str, head: int | None) -> list[Entry]:
    """The chain that ends at `head`, oldest first, at most WINDOW messages.

    Ids say nothing about the order: a message that came in while the model thought is older than the answer
    and stands behind it.
    """
    rows = tx.execute(CHAIN, {"head": head}).all()
    by_message = _calls_since(tx, session_id, min((row[0] for row in rows), default=0))
    return [
        Entry(number, role, text, moment(at) or at, tuple(by_message.get(number, ())), origin, data)
        for number, role, text, at, origin, data in rows
    ]


def chain(tx: Tx, head: int | None) -> list[int]:
    """Ids of the messages from the first to `head`, in order."""
    return [row.id for row in tx.execute(CHAIN, {"head": head}).all()]


def _calls_since(tx: Tx, session_id: str, first_message: int) -> dict[int, list[CallRecord]]:
    found: dict[int, list[CallRecord]] = {}
    for message_id, *fields in tx.execute(CALLS_SINCE, {"session": session_id, "first": first_message}):
        found.setdefault(message_id, []).append(CallRecord.of(fields))
    return found


def find_step(tx: Tx, run_id: str, step_key: str) -> int | None:
    """The id of the assistant message that this step recorded, if it did."""
    found: int | None = tx.scalar(OF_STEP, {"run": run_id, "step": step_key})
    return found


def record_assistant(
    tx: Tx,
    session_id: str,
    *,
    run_id: str,
    step_key: str,
    parent: int | None,
    text: str,
    new_calls: Sequence[NewCall],
    data: dict[str, Any],
    now: datetime,
    moves_head: bool = True,
) -> int:
    """Add the model's words and the calls it asked for, and move the session's head there; the new message's id."""
    row = {
        "session_id": session_id,
        "role": "assistant",
        "parent_id": parent,
        "attached": True,
        "text": wire_safe(text),
        "data": wire_safe(data),
        "run_id": run_id,
        "step_key": step_key,
        "created_at": now,
    }
    message_id: int = tx.execute(ADD, row).scalar_one()
    if new_calls:
        tx.execute(
            insert(calls),
            [
                {
                    "session_id": session_id,
                    "message_id": message_id,
                    "run_id": run_id,
                    "step_key": call.step_key,
                    "position": position,
                    "provider_id": wire_safe(call.provider_id),
                    "name": wire_safe(call.name),
                    "arguments": wire_safe(call.arguments),
                    "effect": call.effect,
                    "state": CallState.PLANNED,
                }
                for position, call in enumerate(new_calls)
            ],
        )
    if moves_head:
        deposit.move_head(tx, session_id, message_id)
    return message_id


def record_summary(
    tx: Tx,
    session_id: str,
    *,
    run_id: str,
    step_key: str,
    parent: int,
    text: str,
    data: dict[str, Any],
    now: datetime,
    moves_head: bool = True,
) -> int:
    """Add a summary at the head of the transcript; nothing that it covers is changed. The new message's id."""
    row = {
        "session_id": session_id,
        "role": SUMMARY,
        "parent_id": parent,
        "attached": True,
        "text": wire_safe(text),
        "data": wire_safe(data),
        "run_id": run_id,
        "step_key": step_key,
        "created_at": now,
    }
    message_id: int = tx.execute(ADD, row).scalar_one()
    if moves_head:
        deposit.move_head(tx, session_id, message_id)
    return message_id


def text_of(tx: Tx, message_id: int) -> str:
    return tx.scalar(select(messages.c.text).where(messages.c.id == message_id)) or ""


def mark_draft(tx: Tx, message_id: int) -> None:
    """Note that an answer was not sent because something newer came in; the model is told so."""
    data = tx.scalar(select(messages.c.data).where(messages.c.id == message_id)) or {}
    tx.execute(update(messages).where(messages.c.id == message_id).values(data=data | {"draft": True}))


def planned_calls(tx: Tx, message_id: int) -> list[tuple[str, str, str]]:
    """(step key, tool name, arguments as JSON text) of the calls of one assistant message, in order."""
    columns = (calls.c.step_key, calls.c.name, calls.c.arguments)
    query = select(*columns).where(calls.c.message_id == message_id).order_by(calls.c.position)
    return [(row.step_key, row.name, row.arguments) for row in tx.execute(query).all()]


def last_waiting(tx: Tx, session_id: str, behind: int | None = None) -> str | None:
    """The words of the newest input (up to the row `behind`) that no model was shown yet, or None."""
    waiting = [row for row in deposit.unattached(tx, session_id) if behind is None or row <= behind]
    return text_of(tx, waiting[-1]) if waiting else None


def recent(tx: Tx, session_id: str, limit: int) -> list[tuple[str, str, datetime]]:
    """The newest (role, text, time) of a session, oldest first, without empty texts; for showing to people."""
    query = (
        select(messages.c.role, messages.c.text, messages.c.created_at)
        .where(messages.c.session_id == session_id, messages.c.text != "", messages.c.role != SUMMARY)
        .order_by(messages.c.id.desc())
        .limit(limit)
    )
    rows = tx.execute(query).all()
    return [(row.role, row.text, moment(row.created_at) or row.created_at) for row in reversed(rows)]


def of_key(tx: Tx, session_key: str, limit: int) -> list[tuple[str, str, datetime]]:
    """`recent` of the open session of a key; empty if there is none."""
    session_id = session.find(tx, session_key)
    return recent(tx, session_id, limit) if session_id else []
