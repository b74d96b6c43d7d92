"""A message that its writer changed: unanswered it is replaced and steers, answered the change becomes a note."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import select, update

from app.db import Tx, insert_if_absent
from app.events import MessageReceived, wire_safe
from app.sessions import deposit, session
from app.tables import messages

NOTE = "note"
"""State of an input that wants no answer: the next turn shows it to the model."""

HEARD = "Spoken"
"""How marks begin that say what was heard in a recording. A change has its files fetched and heard again."""

MARK = "An earlier message was edited after it was answered. It reads now:"


def edit(tx: Tx, event: MessageReceived, event_key: str, now: datetime) -> Literal["replaced", "noted", "nothing"]:
    """What became of an edit of the message `event_key`; the same or an older one again changes nothing.

    A turn that has shown the old text to a model loses the session, so that it cannot answer what is no longer asked.
    An edit of what is no message here (a command, or before our time) is nothing. One whose turn failed is open again.
    """
    row = tx.execute(select(messages).where(messages.c.message_key == event_key).with_for_update()).first()
    if row is None or not event.edited:
        return "nothing"
    is_newer = _date(event.edited) > _date(str(row.data.get("edited", ""))) and wire_safe(event.message) != row.text
    if row.state == "failed" and is_newer and session.is_open(tx, row.session_id):
        _open_again(tx, row)
        return _replace(tx, row, event, now)
    if row.state == "open":
        return _replace(tx, row, event, now)
    return _note(tx, row, event, now)


def is_first_heard(tx: Tx, event: MessageReceived, event_key: str) -> bool:
    """Whether only the edit says, in a group, that a message is meant for the agent, which never saw it before.

    A command is not run by an edit, and has no row.
    """
    meant = bool(event.channel_meta.get("group")) and event.steers and not event.message.lstrip().startswith("/")
    return meant and not deposit.is_stored(tx, event_key)


def _open_again(tx: Tx, row: Any) -> None:
    """It stands at the end of the conversation again."""
    values = {"state": "open", "answered_by": None, "wakes": 0}
    tx.execute(update(messages).where(messages.c.id == row.id).values(values))
    deposit.carry_over(tx, row.session_id, row.session_id, row.id - 1)


def _replace(tx: Tx, row: Any, event: MessageReceived, now: datetime) -> Literal["replaced", "nothing"]:
    known = str(row.data.get("edited", ""))
    if _date(event.edited) < _date(known):
        return "nothing"
    if event.edited != known:
        marks = [mark for mark in row.data.get("marks") or () if not mark.startswith(HEARD)]
        data = {"edited": event.edited} | deposit.about(event) | {"marks": marks}
        values = {"text": wire_safe(event.message), "data": data, "event": wire_safe(event)}
        tx.execute(update(messages).where(messages.c.id == row.id).values(values))
        if row.attached:
            session.release(tx, row.session_id, now)
    return "replaced"


def _note(tx: Tx, row: Any, event: MessageReceived, now: datetime) -> Literal["noted", "nothing"]:
    if wire_safe(event.message) == row.text:
        return "nothing"  # platforms also send an edit when only the preview of a link has changed
    note = {
        "session_id": row.session_id,
        "role": "user",
        "text": wire_safe(event.message),
        "data": deposit.about(event) | {"marks": [MARK, *map(wire_safe, event.marks)]},
        "message_key": f"{row.message_key}:edit-{event.edited}",
        "state": NOTE,
        "origin": event.origin,
        "channel": event.channel,
        "destination": wire_safe(event.destination),
        "sent_at": event.sent_at,
        "created_at": now,
    }
    return "noted" if insert_if_absent(tx, messages, note) else "nothing"


def _date(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
