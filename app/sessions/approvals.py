"""What waits for a person: requests to run a tool, and questions; a decision is a compare-and-set on its row."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import literal, or_, select, update

from app.db import Tx, insert_if_absent, moment
from app.events import Destination, MessageReceived, wire_safe
from app.goal_tables import goals
from app.ids import ALPHABET
from app.open_rows import APPROVAL_PENDING, TURN_LIVE
from app.tables import approvals, calls, deliveries, messages, sessions, tasks, turns

ID_CHARACTERS = 8
MAX_DEPTH = 10
OUTSIDE = "outside"
"""The kind of a request that no person decides: the result of its call is given over the API."""
AFTER_APPROVAL = "/outside"
"""Ends the step key of such a request where a person had to approve of the call first, by a request of its own."""


class State(StrEnum):
    """pending -> approved -> used; or denied, answered (a question), expired, superseded."""

    PENDING = "pending"
    APPROVED = "approved"
    USED = "used"
    DENIED = "denied"
    ANSWERED = "answered"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


DECIDED = (State.APPROVED, State.DENIED, State.ANSWERED, State.EXPIRED)


@dataclass(frozen=True)
class Approval:
    """One request. `requester` is who may be asked (see `identity`); `request` is what the prompt was made of."""

    id: str
    session_id: str
    run_id: str
    step_key: str
    kind: str
    tool: str
    digest: str
    request: Mapping[str, Any]
    requester: str | None
    created_at: datetime
    expires_at: datetime
    state: str = State.PENDING
    answer: str | None = None
    decided_by: str | None = None
    note: str | None = None
    decided_at: datetime | None = None

    @property
    def call_key(self) -> str:
        """The step key of the call that it is about."""
        return self.step_key.removesuffix(AFTER_APPROVAL)

    @classmethod
    def of(cls, row: Any) -> "Approval":
        values = {field.name: getattr(row, field.name) for field in fields(cls)}
        times = {name: moment(values[name]) for name in ("created_at", "expires_at", "decided_at")}
        return cls(**values | times)


@dataclass(frozen=True)
class Asked:
    """Whom to ask, and where: the newest person who spoke in a session or in the one that gave it its task."""

    session_id: str
    channel: str
    destination: Destination
    requester: str | None


def approval_id(run_id: str, step_key: str) -> str:
    """Short enough to be typed, and the same for a step that runs again."""
    number = int.from_bytes(hashlib.sha256(f"{run_id}/{step_key}".encode()).digest()[:8])
    return "".join(ALPHABET[number >> (5 * i) & 31] for i in range(ID_CHARACTERS))


def digest(tool: str, arguments: Mapping[str, Any], folder: str) -> str:
    """What a decision is bound to: the tool, its full arguments, and the working directory."""
    text = json.dumps([tool, arguments, folder], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def identity(event: Any) -> str:
    """Who speaks in an event: `channel:sender`, or the channel's name where the sender is not told."""
    return f"{event.channel}:{event.sender.id}" if event.sender is not None else str(event.channel)


def add(tx: Tx, approval: Approval) -> None:
    """Write a request down; one of the same step that is there already stays."""
    insert_if_absent(tx, approvals, asdict(approval) | {"request": wire_safe(approval.request)})


def find(tx: Tx, approval_id: str) -> Approval | None:
    return _first(tx, approvals.c.id == approval_id.strip().upper())


def of_step(tx: Tx, run_id: str, step_key: str) -> Approval | None:
    return _first(tx, approvals.c.run_id == run_id, approvals.c.step_key == step_key)


def decide(
    tx: Tx, approval: Approval, state: State, now: datetime, *, by: str | None = None, answer: str | None = None,
    note: str | None = None,
) -> bool:  # fmt: skip
    """Close a pending request; False if somebody was faster."""
    values = {"state": state, "decided_by": by, "answer": answer, "note": note, "decided_at": now}
    query = update(approvals).where(approvals.c.id == approval.id, APPROVAL_PENDING)
    return tx.execute(query.values(wire_safe(values) | {"decided_at": now})).rowcount > 0


def use(tx: Tx, approval: Approval) -> None:
    """Note that the call it was given for begins; it is good for no other."""
    query = update(approvals).where(approvals.c.id == approval.id, approvals.c.state == State.APPROVED)
    tx.execute(query.values(state=State.USED))


def pending(tx: Tx, session_id: str | None = None) -> list[Approval]:
    """Open requests, oldest first; of one session or of all."""
    conditions = [APPROVAL_PENDING]
    if session_id is not None:
        conditions.append(approvals.c.session_id == session_id)
    return _all(tx, select(approvals), *conditions)


def of_older_turns(tx: Tx, session_id: str, run_id: str) -> list[Approval]:
    """Open requests of a session that a run other than `run_id` made."""
    return [approval for approval in pending(tx, session_id) if approval.run_id != run_id]


def is_awaited(tx: Tx, approval: Approval) -> bool:
    """Whether the turn that asked is still there."""
    return tx.scalar(select(turns.c.state).where(turns.c.run_id == approval.run_id)) == "live"


def unheard(tx: Tx) -> list[Approval]:
    """Decisions that a live turn may not know of: it waits, and was not seen since."""
    waiting = TURN_LIVE, turns.c.waiting_until.is_not(None), turns.c.seen_at < approvals.c.decided_at
    is_its_call = or_(
        approvals.c.step_key == calls.c.step_key, approvals.c.step_key == calls.c.step_key + AFTER_APPROVAL
    )
    open_calls = select(calls.c.id).where(calls.c.run_id == approvals.c.run_id, is_its_call, calls.c.state != "started")
    query = select(approvals).join(turns, turns.c.run_id == approvals.c.run_id)
    return _all(tx, query, *waiting, approvals.c.state.in_(DECIDED), open_calls.exists())


def whom(tx: Tx, session_id: str, channels: Sequence[str]) -> Asked | None:
    """Who can be asked for a session; None if nobody ever spoke in it on one of `channels`, nor in its parents."""
    for _ in range(MAX_DEPTH):
        query = (
            select(messages.c.event)
            .where(messages.c.session_id == session_id, messages.c.role == "user", messages.c.channel.in_(channels))
            .order_by((messages.c.origin == "person").desc(), messages.c.id.desc())
            .limit(1)
        )
        data = tx.scalar(query)
        if data is not None:
            event = MessageReceived.from_data(data)
            by_person = event.origin == "person"
            return Asked(session_id, event.channel, event.destination, identity(event) if by_person else None)
        parent = _parent(tx, session_id)
        if parent is None:
            return None
        session_id = parent
    return None


def speaker(tx: Tx, session_id: str) -> MessageReceived | None:
    """The newest thing that a person said in a session, or in the one that gave it its task; None if nobody did."""
    for _ in range(MAX_DEPTH):
        query = (
            select(messages.c.event)
            .where(messages.c.session_id == session_id, messages.c.role == "user", messages.c.origin == "person")
            .order_by(messages.c.id.desc())
            .limit(1)
        )
        data = tx.scalar(query)
        if data is not None:
            return MessageReceived.from_data(data)
        parent = _parent(tx, session_id)
        if parent is None:
            return None
        session_id = parent
    return None


def _parent(tx: Tx, session_id: str) -> str | None:
    """The session whose turn delegated to this one, or whose goal it works for."""
    key = tx.scalar(select(sessions.c.key).where(sessions.c.id == session_id)) or ""
    awaited: str | None = tx.scalar(select(calls.c.session_id).where(calls.c.child_key == key).limit(1))
    if awaited is not None:
        return awaited
    if key.startswith("goal:"):
        told: str | None = tx.scalar(select(goals.c.session_id).where(goals.c.id == key.split(":")[1]))
        return told
    apart: str | None = tx.scalar(select(tasks.c.session_id).where(tasks.c.id == key.removeprefix("task:")))
    return apart


def session_key(tx: Tx, approval: Approval) -> str:
    return tx.scalar(select(sessions.c.key).where(sessions.c.id == approval.session_id)) or ""


def prompted(tx: Tx, session_id: str) -> Any | None:
    """(id, text) of the oldest open request that was put before the person of a session, or None."""
    query = (
        select(approvals.c.id, deliveries.c.text)
        .join(deliveries, deliveries.c.key == literal("approval/") + approvals.c.id + "/0")
        .where(deliveries.c.session_id == session_id, APPROVAL_PENDING)
        .order_by(deliveries.c.id)
    )
    return tx.execute(query).first()


def arguments_of(tx: Tx, approval: Approval) -> str:
    """The full arguments of the call a request is for, as the model wrote them."""
    query = select(calls.c.arguments).where(calls.c.run_id == approval.run_id, calls.c.step_key == approval.call_key)
    return tx.scalar(query) or ""


def _first(tx: Tx, *conditions: Any) -> Approval | None:
    row = tx.execute(select(approvals).where(*conditions).with_for_update()).first()
    return None if row is None else Approval.of(row)


def _all(tx: Tx, query: Any, *conditions: Any) -> list[Approval]:
    rows = tx.execute(query.where(*conditions).order_by(approvals.c.created_at, approvals.c.id)).all()
    return [Approval.of(row) for row in rows]
