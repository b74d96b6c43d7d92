"""Sessions as people read them: the list of them, and one as a conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, or_, select

from app.db import Tx, moment
from app.errors import NotFound
from app.open_rows import MESSAGE_OPEN, TURN_LIVE
from app.sessions import transcript
from app.tables import messages, sessions, turns
from app.web.records import CallNote, calls_by_message

LINES_SHOWN = 100
KEYS_SUGGESTED = 100


@dataclass(frozen=True)
class SessionRow:
    """One session in the list. `last_id` is its newest message; `activity` what its live turn does, if any."""

    id: str
    key: str
    created_at: datetime
    closed_at: datetime | None
    head_id: int | None
    messages: int
    last_id: int
    last_at: datetime | None
    activity: str | None


@dataclass(frozen=True)
class Line:
    """One message of a conversation. `run_id` is the run that said it, or that answered it."""

    id: int
    role: str
    text: str
    at: datetime
    origin: str | None
    run_id: str | None
    state: str | None
    draft: bool
    calls: tuple[CallNote, ...]


@dataclass(frozen=True)
class Conversation:
    """A session with its newest lines, the messages that wait for a turn, and its key's other sessions."""

    session: SessionRow
    lines: tuple[Line, ...]
    waiting: tuple[str, ...]
    earlier: int | None
    others: tuple[SessionRow, ...]


def listed(tx: Tx, limit: int, key: str | None = None, before: int | None = None) -> list[SessionRow]:
    """Sessions by their newest message. `key` is looked for within keys; `before` is a `last_id` to page from."""
    query = _sessions()
    if key:
        query = query.where(sessions.c.key.contains(key, autoescape=True))
    last_id = func.coalesce(func.max(messages.c.id), 0)
    if before is not None:
        query = query.having(last_id < before)
    return _rows(tx, query.order_by(last_id.desc(), sessions.c.created_at.desc()).limit(limit))


def open_with_people(tx: Tx, limit: int, channels: Sequence[str]) -> list[dict[str, Any]]:
    """Open sessions of these channels as JSON, the one with the newest message first; not those of sub-agents."""
    mine = or_(*(sessions.c.key.startswith(f"{channel}:", autoescape=True) for channel in channels))
    query = _sessions().where(sessions.c.closed_at.is_(None), mine).having(func.count(messages.c.id) > 0)
    return [
        {
            "key": row.key,
            "messages": row.messages,
            "lastAt": _iso(row.last_at),
            "activity": row.activity,
        }
        for row in _rows(tx, query.order_by(func.max(messages.c.id).desc()).limit(limit))
    ]


def _iso(at: datetime | None) -> str | None:
    found = moment(at)
    return found.isoformat() if found is not None else None


def known_keys(tx: Tx) -> list[str]:
    """Keys of the newest open sessions, to choose from."""
    query = select(sessions.c.key).where(sessions.c.closed_at.is_(None)).order_by(sessions.c.created_at.desc())
    return list(tx.scalars(query.limit(KEYS_SUGGESTED)))


def conversation(tx: Tx, key: str, session_id: str | None = None, before: int | None = None) -> Conversation:
    """The open session of a key, or its newest, or the one named. Raises NotFound.

    `before` is a message's id: lines older than it.
    """
    found = _rows(tx, _sessions().where(sessions.c.key == key).order_by(sessions.c.created_at.desc()))
    chosen = [row for row in found if (row.id == session_id if session_id else row.closed_at is None)]
    if not found or (session_id and not chosen):
        raise NotFound(f"There is no session {key!r}.")
    session = (chosen or found)[0]
    entries = transcript.load(tx, session.id, session.head_id)
    end = next((place for place, entry in enumerate(entries) if entry.id == before), len(entries))
    start = max(0, end - LINES_SHOWN)
    return Conversation(
        session=session,
        lines=_lines(tx, entries[start:end]),
        waiting=_waiting(tx, session.id),
        earlier=entries[start].id if start else None,
        others=tuple(row for row in found if row.id != session.id),
    )


def _sessions() -> Any:
    activity = (
        select(turns.c.activity)
        .where(turns.c.session_id == sessions.c.id, TURN_LIVE)
        .order_by(turns.c.run_id.desc())
        .limit(1)
        .scalar_subquery()
    )
    columns = (sessions.c.id, sessions.c.key, sessions.c.created_at, sessions.c.closed_at, sessions.c.head_id)
    counted = (func.count(messages.c.id), func.coalesce(func.max(messages.c.id), 0), func.max(messages.c.created_at))
    return (
        select(*columns, *counted, activity)
        .select_from(sessions.outerjoin(messages, messages.c.session_id == sessions.c.id))
        .group_by(*columns)
    )


def _rows(tx: Tx, query: Any) -> list[SessionRow]:
    return [SessionRow(*row) for row in tx.execute(query)]


def _lines(tx: Tx, entries: Sequence[transcript.Entry]) -> tuple[Line, ...]:
    ids = [entry.id for entry in entries]
    query = select(messages.c.id, messages.c.run_id, messages.c.answered_by, messages.c.state)
    facts = {row.id: row for row in tx.execute(query.where(messages.c.id.in_(ids)))}
    calls = calls_by_message(tx, ids)
    return tuple(
        Line(
            id=entry.id,
            role=entry.role,
            text=entry.text,
            at=entry.at,
            origin=entry.origin,
            run_id=facts[entry.id].run_id or facts[entry.id].answered_by,
            state=facts[entry.id].state,
            draft=bool(entry.data.get("draft")),
            calls=tuple(calls.get(entry.id, ())),
        )
        for entry in entries
    )


def _waiting(tx: Tx, session_id: str) -> tuple[str, ...]:
    query = select(messages.c.text).where(
        messages.c.session_id == session_id, MESSAGE_OPEN, messages.c.attached.is_(False)
    )
    return tuple(tx.scalars(query.order_by(messages.c.id)))
