"""Albums of groups: their pictures come one by one, and only one of them need say that the agent is meant.

A picture that does not say so waits in a room of its own, where nobody is shown it, until one of its album does; it is
deposited then with the others. Where none does, it is thrown away.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select

from app.db import Tx, insert_if_absent
from app.events import MessageReceived, wire_safe
from app.tables import album_parts, messages, sessions

KEPT_FOR = timedelta(hours=1)
"""How long a picture waits for its album, and for how long a late one still belongs to it."""


def must_wait(tx: Tx, event: MessageReceived, event_key: str, now: datetime) -> bool:
    """Whether an input is a picture of an album in which nobody has called the agent yet; it waits here then."""
    if not event.channel_meta.get("unaddressed") or _is_called(tx, event, now):
        return False
    forget_old(tx, now)
    row = {"message_key": event_key, "session_key": event.session_key, "album": _album(event)}
    insert_if_absent(tx, album_parts, row | {"event": wire_safe(event), "created_at": now})
    return True


def _album(event: MessageReceived) -> str:
    return str(event.channel_meta.get("mediaGroupId") or "")


def _is_called(tx: Tx, event: MessageReceived, now: datetime) -> bool:
    """Whether a picture of this album lies in a session already."""
    query = (
        select(messages.c.id)
        .join(sessions, sessions.c.id == messages.c.session_id)
        .where(sessions.c.key == event.session_key, messages.c.created_at > now - KEPT_FOR)
        .where(messages.c.channel_meta["mediaGroupId"].as_string() == _album(event))
    )
    return tx.scalar(query.limit(1)) is not None


def called_in(tx: Tx, event: MessageReceived) -> Sequence[Any]:
    """Rows (message_key, event) of the pictures that wait for this one, in the order they came; they wait no more."""
    album = _album(event)
    if not album:
        return ()
    mine = album_parts.c.session_key == event.session_key, album_parts.c.album == album
    order = album_parts.c.created_at, album_parts.c.message_key
    rows = tx.execute(select(album_parts.c.message_key, album_parts.c.event).where(*mine).order_by(*order)).all()
    if rows:
        tx.execute(delete(album_parts).where(*mine))
    return rows


def forget_old(tx: Tx, now: datetime) -> None:
    """Throw away what nobody has called in for."""
    tx.execute(delete(album_parts).where(album_parts.c.created_at < now - KEPT_FOR))
