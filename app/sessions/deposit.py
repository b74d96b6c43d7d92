"""The one way into a session: an input is stored once, whoever brings it and however often."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select, update

from app.db import Tx, insert_if_absent, moment
from app.errors import MoabError
from app.events import MessageReceived, message_event_id, wire_safe
from app.open_rows import MESSAGE_OPEN
from app.sessions import albums, session
from app.tables import messages, sessions, turns

CLOSED_AT_ONCE, STOPPED_AT_ONCE = 200, 5
"""How many messages of a session are looked through for those that a turn has closed, or was stopped at."""

MAX_WAKES = 3
"""How often a message that nobody answered is woken again before a person has to look."""


ALBUM_QUIET = timedelta(seconds=1.5)
ALBUM_AT_MOST = timedelta(seconds=15)
"""How long an album must be quiet to count as whole, and after which time it does so in any case."""


UNATTACHED = (
    select(messages.c.id)
    .where(messages.c.session_id == bindparam("session"), messages.c.attached.is_(False))
    .where(messages.c.state.in_(bindparam("states", expanding=True)))
    .order_by(messages.c.id)
)
MOVE_HEAD = update(sessions).where(sessions.c.id == bindparam("session"))
STORED = select(messages.c.id, messages.c.session_id, messages.c.event_sent_at).where(
    messages.c.message_key == bindparam("key")
)


@dataclass(frozen=True)
class Deposited:
    """Where an input lies. `fresh` is false when it was there already; `event_due` says its event is not known sent."""

    message_id: int
    session_id: str
    fresh: bool
    event_due: bool


def deposit(tx: Tx, event: MessageReceived, event_key: str, *, new_session_id: str, now: datetime) -> Deposited | None:
    """Store an input under its message key `event_key`; a key that is there already changes nothing.

    None: it is a picture of a group's album that nobody has called the agent in, and waits in a room of its own.
    """
    found = _find(tx, event_key)
    if found is None and albums.must_wait(tx, event, event_key, now):
        return None
    session_id = found.session_id if found else session.open_session(tx, event.session_key, new_session_id, now)
    for part in albums.called_in(tx, event):  # the picture that calls the agent starts the turn for all of them
        row = _row(MessageReceived.from_data(part.event), part.message_key, session_id, now)
        insert_if_absent(tx, messages, row | {"event_sent_at": now})
    if found is not None:
        return found
    fresh = insert_if_absent(tx, messages, _row(event, event_key, session_id, now))
    stored = _find(tx, event_key)
    if stored is None:
        raise MoabError(f"The message {event_key} was neither stored nor there.")
    return replace(stored, fresh=fresh)


def _row(event: MessageReceived, event_key: str, session_id: str, now: datetime) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "role": "user",
        "text": wire_safe(event.message),
        "data": about(event),
        "message_key": event_key,
        "state": "open",
        "origin": event.origin,
        "channel": event.channel,
        "destination": wire_safe(event.destination),
        "channel_meta": wire_safe(event.channel_meta),
        "event": wire_safe(event),
        "sent_at": event.sent_at,
        "created_at": now,
    }


def about(event: MessageReceived) -> dict[str, Any]:
    """What a message's row says besides its text: who wrote it, and what came along."""
    found: dict[str, Any] = {}
    if event.sender is not None:
        found["sender"] = event.sender.name or event.sender.username or event.sender.id
    if event.attachments:
        found["attachments"] = [wire_safe(a.model_dump(by_alias=True, exclude_none=True)) for a in event.attachments]
    if event.marks:
        found["marks"] = [wire_safe(mark) for mark in event.marks]
    if event.channel_meta.get("group"):
        found["group"] = True
    return found


def file_task(message_id: int, number: int) -> str:
    """What the ledger calls the fetching of a message's `number`th file."""
    return f"file-{message_id}-{number}"


def _find(tx: Tx, event_key: str) -> Deposited | None:
    row = tx.execute(STORED, {"key": event_key}).first()
    return None if row is None else Deposited(row.id, row.session_id, fresh=False, event_due=row.event_sent_at is None)


def is_stored(tx: Tx, event_key: str) -> bool:
    """Whether an input of this key is there."""
    return _find(tx, event_key) is not None


def newest(tx: Tx, session_key: str) -> int:
    """The row of the newest message in the sessions of a key, 0 if there is none."""
    query = select(func.max(messages.c.id)).join(sessions, sessions.c.id == messages.c.session_id)
    return tx.scalar(query.where(sessions.c.key == session_key)) or 0


def last_said_under(tx: Tx, prefix: str, sender_id: str) -> Any | None:
    """(key, destination) of the newest message of a person in the open sessions whose keys begin with `prefix`."""
    query = (
        select(sessions.c.key, messages.c.destination)
        .select_from(messages.join(sessions, sessions.c.id == messages.c.session_id))
        .where(
            sessions.c.key.startswith(prefix, autoescape=True),
            sessions.c.closed_at.is_(None),
            messages.c.event["sender"]["id"].as_string() == sender_id,
        )
        .order_by(messages.c.id.desc())
        .limit(1)
    )
    return tx.execute(query).first()


def carry_over(tx: Tx, old: str, new: str, behind: int) -> bool:
    """Move the open inputs that came in after the row `behind` to another session, to be attached there once more.

    With the same session they are only taken out of the transcript. Answers with whether there were any.
    """
    query = select(messages.c.id, messages.c.parent_id).where(
        messages.c.session_id == old, MESSAGE_OPEN, messages.c.id > behind
    )
    rows = tx.execute(query.order_by(messages.c.id.desc())).all()
    for row in rows:  # the newest first: each gives what hangs on it to its own parent
        tx.execute(update(messages).where(messages.c.parent_id == row.id).values(parent_id=row.parent_id))
        tx.execute(update(sessions).where(sessions.c.head_id == row.id).values(head_id=row.parent_id))
        moved = {"session_id": new, "parent_id": None, "attached": False}
        tx.execute(update(messages).where(messages.c.id == row.id).values(moved))
    return bool(rows)


def mark_event_sent(tx: Tx, message_key: str, now: datetime) -> None:
    """Note that the message's start signal was accepted by the engine."""
    tx.execute(update(messages).where(messages.c.message_key == message_key).values(event_sent_at=now))


def attach_open(tx: Tx, session_id: str) -> int | None:
    """Put open inputs and notes that are not in the transcript yet at its end, in order; the new head, if any."""
    head = session.head_of(tx, session_id)
    waiting = unattached(tx, session_id, ("open", "note"))
    for message_id in waiting:
        tx.execute(update(messages).where(messages.c.id == message_id).values(parent_id=head, attached=True))
        head = message_id
    if waiting:
        move_head(tx, session_id, head)
    return head


def album_until(tx: Tx, session_id: str, now: datetime) -> datetime | None:
    """When the album that is coming in counts as whole: no picture of it came for ALBUM_QUIET; None if none is."""
    query = select(messages.c.channel_meta, messages.c.created_at).where(
        messages.c.session_id == session_id, MESSAGE_OPEN, messages.c.attached.is_(False)
    )
    came = [
        at
        for row in tx.execute(query).all()
        if (row.channel_meta or {}).get("mediaGroupId") and (at := moment(row.created_at)) is not None
    ]
    until = min(max(came) + ALBUM_QUIET, min(came) + ALBUM_AT_MOST) if came else now
    return until if now < until else None


def unattached(tx: Tx, session_id: str, states: Sequence[str] = ("open",)) -> Sequence[int]:
    """Ids of inputs of these states that no model has been shown yet, in order."""
    return tx.scalars(UNATTACHED, {"session": session_id, "states": list(states)}).all()


def move_head(tx: Tx, session_id: str, head: int | None) -> None:
    tx.execute(MOVE_HEAD, {"session": session_id, "head_id": head})


def open_inputs(tx: Tx, session_id: str) -> Sequence[Any]:
    """Inputs not answered yet, oldest first: id, message_key, channel, destination, channel_meta, origin, text."""
    query = (
        select(
            messages.c.id,
            messages.c.message_key,
            messages.c.channel,
            messages.c.destination,
            messages.c.channel_meta,
            messages.c.origin,
            messages.c.text,
        )
        .where(messages.c.session_id == session_id, MESSAGE_OPEN)
        .order_by(messages.c.id)
    )
    rows: Sequence[Any] = tx.execute(query).all()
    return rows


def close_shown(tx: Tx, session_id: str, run_id: str, state: str) -> None:
    """Mark the open inputs that were shown to the model as `answered`, `failed` or `stopped` by this turn."""
    tx.execute(
        update(messages)
        .where(messages.c.session_id == session_id, MESSAGE_OPEN, messages.c.attached.is_(True))
        .values(state=state, answered_by=run_id)
    )


def closed_by(tx: Tx, run_id: str) -> Sequence[Any]:
    """(id, channel, destination, state) of the inputs that a turn answered or failed at, oldest first.

    Those that it was stopped at do not say so: the latest stopped ones of its session are taken for them.
    """
    turn = tx.execute(select(turns.c.session_id, turns.c.state).where(turns.c.run_id == run_id)).first()
    if turn is None:
        return ()
    of_session = messages.c.session_id == turn.session_id
    latest = select(messages.c.id).where(of_session).order_by(messages.c.id.desc()).limit(CLOSED_AT_ONCE)
    stopped = select(messages.c.id).where(of_session, messages.c.state == "stopped").order_by(messages.c.id.desc())
    mine = and_(messages.c.id.in_(latest), messages.c.answered_by == run_id)
    if turn.state == "stopped":
        mine = or_(mine, messages.c.id.in_(stopped.limit(STOPPED_AT_ONCE)))
    query = select(messages.c.id, messages.c.channel, messages.c.destination, messages.c.state).where(
        mine, messages.c.channel.is_not(None)
    )
    return tx.execute(query.order_by(messages.c.id)).all()


def closed(tx: Tx, message_key: str) -> Any | None:
    """(channel, destination, state) of an input that nobody works on any more."""
    query = select(messages.c.channel, messages.c.destination, messages.c.state).where(
        messages.c.message_key == message_key, messages.c.state.in_(("answered", "failed", "stopped"))
    )
    return tx.execute(query).first()


def unsent_events(tx: Tx) -> Sequence[Any]:
    """Rows (message_key, event) of open inputs whose start signal is not known to have been sent, oldest first."""
    query = select(messages.c.id, messages.c.message_key, messages.c.event).where(
        MESSAGE_OPEN, messages.c.event_sent_at.is_(None), messages.c.attached.is_(False)
    )
    return sorted(tx.execute(query).all(), key=lambda row: row.id)  # in SQL, all messages would be gone through for it


def place_of(tx: Tx, session_id: str, run_id: str) -> Any | None:
    """(channel, destination) of the newest input that is open and shown, or was answered by this run."""
    query = (
        select(messages.c.channel, messages.c.destination)
        .where(
            messages.c.session_id == session_id,
            messages.c.channel.is_not(None),
            or_(messages.c.answered_by == run_id, and_(MESSAGE_OPEN, messages.c.attached.is_(True))),
        )
        .order_by(messages.c.id.desc())
        .limit(1)
    )
    return tx.execute(query).first()


def last_place(tx: Tx, session_id: str) -> Any | None:
    """(channel, destination) of the newest input of a session that names one."""
    query = (
        select(messages.c.channel, messages.c.destination)
        .where(messages.c.session_id == session_id, messages.c.channel.is_not(None))
        .order_by(messages.c.id.desc())
        .limit(1)
    )
    return tx.execute(query).first()


def wake_next(tx: Tx, session_id: str) -> dict[str, Any] | None:
    """A fresh start signal for the newest open input of a session, at most MAX_WAKES times each; it does not steer."""
    query = (
        select(messages.c.id, messages.c.message_key, messages.c.event, messages.c.wakes)
        .where(messages.c.session_id == session_id, MESSAGE_OPEN, messages.c.wakes < MAX_WAKES)
        .order_by(messages.c.id.desc())
        .limit(1)
    )
    row = tx.execute(query).first()
    if row is None:
        return None
    tx.execute(update(messages).where(messages.c.id == row.id).values(wakes=row.wakes + 1))
    event = MessageReceived.from_data(row.event | {"steers": False, "messageKey": row.message_key})
    return event.to_wire(message_event_id(row.message_key, f"again-{row.wakes + 1}"))
