"""What the service tells of its own accord: at once by day, in one summary in the morning what fell into the night."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import bindparam, func, or_, select, update

from app.agent.announce import Chat, notice
from app.agent.harness import Harness
from app.agent.heartbeat.night import is_night, night_end
from app.channels import outbox
from app.db import Tx, insert_if_absent, moment
from app.events import Destination, wire_safe
from app.sentences import Sentence, say
from app.sessions import people
from app.tables import messages, notices, sessions

AWAKE_FOR = timedelta(minutes=30)
"""Who has written within this time is awake, whatever the hour."""

DUE = notices.c.told_at.is_(None), or_(notices.c.due_at.is_(None), notices.c.due_at <= bindparam("now"))
"""What was kept and whose morning has come; an older version noted no morning."""

MORNING = Sentence("Good morning. This came up during the night:")


def tell(
    tx: Tx,
    harness: Harness,
    key: str,
    session_id: str,
    chat: Chat,
    text: str,
    *,
    critical: bool = False,
    run_id: str | None = None,
) -> list[dict[str, Any]]:
    """Tell `text` in a chat, once per `key`; the events that send it. Safe to repeat.

    At night only what is `critical` is told at once, or what is said to somebody who is up; the rest waits for the
    morning. A chat of a channel that is not there is told nothing. `run_id` is of the turn whose answer this is.
    """
    if chat.channel not in harness.channels or is_kept(tx, key):
        return []
    if not critical and not outbox.exists(tx, key) and is_silent(tx, harness, session_id):
        keep(tx, harness, key, session_id, chat, text)
        return []
    return notice(tx, harness, key, session_id, chat, text, run_id)


def is_silent(tx: Tx, harness: Harness, session_id: str) -> bool:
    """Whether nothing is to be told in a session now: it is night, and nobody has written there lately."""
    now = harness.clock.now()
    if not is_night(now, zone_of(tx, harness, session_id), harness.settings.quiet):
        return False
    said = select(messages.c.created_at).where(messages.c.session_id == session_id, messages.c.origin == "person")
    last = moment(tx.scalar(said.order_by(messages.c.id.desc()).limit(1)))
    return last is None or last < now - AWAKE_FOR


def zone_of(tx: Tx, harness: Harness, session_id: str) -> ZoneInfo:
    """Where who speaks in a session is in time; the service's own zone if nobody said so."""
    return ZoneInfo(people.principal_of(tx, session_id, ()).zone or harness.settings.timezone)


def keep(tx: Tx, harness: Harness, key: str, session_id: str, chat: Chat, text: str) -> None:
    """Keep `text` for the morning of who is told, once per `key`."""
    now = harness.clock.now()
    row = {
        "key": key,
        "session_id": session_id,
        "channel": chat.channel,
        "destination": wire_safe(chat.destination),
        "text": wire_safe(text),
        "created_at": now,
        "due_at": night_end(now, zone_of(tx, harness, session_id), harness.settings.quiet),
    }
    insert_if_absent(tx, notices, row)


def is_kept(tx: Tx, key: str) -> bool:
    """Whether a text of this key was kept for a morning."""
    return tx.scalar(select(notices.c.id).where(notices.c.key == key)) is not None


def tell_kept(tx: Tx, harness: Harness) -> list[dict[str, Any]]:
    """Where the night is over: what was kept in it, one message for each chat; the events that send them.

    What was not told in its morning, because the service was away, does not come in the night after it either.
    """
    now = harness.clock.now()
    rows = tx.execute(select(notices).where(*DUE).order_by(notices.c.id), {"now": now}).all()
    chats: dict[tuple[str, str, str | None], list[Any]] = {}
    for row in rows:
        place = Destination.model_validate(row.destination)  # whichever message it was about
        chats.setdefault((row.channel, place.chat_id, place.thread_id), []).append(row)
    return [event for found in chats.values() for event in _tell_chat(tx, harness, found, now)]


def _tell_chat(tx: Tx, harness: Harness, rows: Sequence[Any], now: datetime) -> list[dict[str, Any]]:
    untold = notices.c.id.in_([row.id for row in rows]), notices.c.told_at.is_(None)
    zone, quiet = zone_of(tx, harness, rows[0].session_id), harness.settings.quiet
    if is_night(now, zone, quiet):
        tx.execute(update(notices).where(*untold).values(due_at=night_end(now, zone, quiet)))
        return []
    told = set(tx.scalars(update(notices).where(*untold).values(told_at=now).returning(notices.c.id)))
    texts = [row.text for row in rows if row.id in told]
    if not texts:
        return []  # somebody was faster
    text = "\n\n".join([say(MORNING, outbox.language_of(tx, rows[0].session_id)), *texts])
    return notice(tx, harness, f"morning/{rows[0].id}", rows[0].session_id, rows[0], text)


def home_chat(tx: Tx, harness: Harness) -> Any | None:
    """Where the service speaks of its own accord: (session_id, session_key, channel, destination) of the chat in which
    the operator or an admin has written last, for what it speaks of is theirs; where none of them ever did, of the chat
    in which anybody has. None if nobody ever did.
    """
    by_people = messages.c.origin == "person", messages.c.channel.in_(list(harness.channels))
    newest = tx.execute(CHAT.where(*by_people).order_by(messages.c.id.desc()).limit(1)).first()
    if newest is None or _is_operators(tx, harness, newest):
        return newest
    last = select(func.max(messages.c.id)).where(*by_people).group_by(messages.c.session_id)
    chats = tx.execute(CHAT.where(messages.c.id.in_(last)).order_by(messages.c.id.desc())).all()
    return next((chat for chat in chats if _is_operators(tx, harness, chat)), newest)


CHAT = select(
    messages.c.session_id, sessions.c.key.label("session_key"), messages.c.channel, messages.c.destination
).join(sessions, sessions.c.id == messages.c.session_id)


def _is_operators(tx: Tx, harness: Harness, chat: Any) -> bool:
    return not people.principal_of(tx, chat.session_id, harness.settings.approval_admins).folder
