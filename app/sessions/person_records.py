"""Everything that is kept of one person or group: found, written out, and deleted."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select

from app.db import Tx
from app.goal_tables import goals, tries
from app.sessions import session
from app.tables import calls, deliveries, messages, metadata, observations, people, sessions, tasks

EXPORTED = ("messages", "turns", "calls", "approvals", "deliveries", "tasks", "wakes", "notices", "usage", "goals")


def session_ids(tx: Tx, person_id: str) -> list[str]:
    """The sessions of a person (not those of groups he spoke in) or of a group, with those of their tasks."""
    channel, _, number = person_id.partition(":")
    query = select(messages.c.session_id, messages.c.event, messages.c.channel_meta).where(
        messages.c.channel == channel, messages.c.event.is_not(None)
    )
    found: dict[str, None] = {}
    for row in tx.execute(query):
        group = (row.channel_meta or {}).get("group")
        sender, chat = (row.event.get("sender") or {}).get("id"), (row.event.get("destination") or {}).get("chatId")
        if (chat if group else sender) == number:
            found[row.session_id] = None
    for one in _kin(tx, list(found)):
        found[one] = None
    return list(found)


def _kin(tx: Tx, ids: Sequence[str]) -> list[str]:
    """The sessions of sub-agents and of steps of goals that worked for `ids`, and of theirs."""
    found: list[str] = []
    wave = list(ids)
    while wave:
        keys = [key for key in tx.scalars(select(calls.c.child_key).where(calls.c.session_id.in_(wave))) if key]
        keys += [f"task:{one}" for one in tx.scalars(select(tasks.c.id).where(tasks.c.session_id.in_(wave)))]
        keys += [key for one in _goals_of(tx, wave) for key in _keys_below(tx, f"goal:{one}:")]
        wave = [one for one in tx.scalars(select(sessions.c.id).where(sessions.c.key.in_(keys))) if one not in found]
        found += wave
    return found


def _goals_of(tx: Tx, ids: Sequence[str]) -> list[str]:
    return list(tx.scalars(select(goals.c.id).where(goals.c.session_id.in_(ids))))


def _keys_below(tx: Tx, prefix: str) -> list[str]:
    return list(tx.scalars(select(sessions.c.key).where(sessions.c.key.startswith(prefix, autoescape=True))))


def export(tx: Tx, person_id: str) -> dict[str, Any]:
    """What is kept, by table, as JSON can say it."""
    ids = session_ids(tx, person_id)
    found: dict[str, Any] = {"sessions": _rows(tx, sessions, sessions.c.id.in_(ids))}
    found["people"] = _rows(tx, people, people.c.id == person_id)
    for name in EXPORTED:
        table = metadata.tables[name]
        found[name] = _rows(tx, table, table.c.session_id.in_(ids))
    return found


def _rows(tx: Tx, table: Any, condition: Any) -> list[dict[str, Any]]:
    return [_plain(dict(row._mapping)) for row in tx.execute(select(table).where(condition))]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def forget(tx: Tx, person_id: str, now: datetime) -> list[str]:
    """Delete every row about a person or group; the keys of the sessions there were. What runs is stopped first."""
    ids = session_ids(tx, person_id)
    keys = list(tx.scalars(select(sessions.c.key).where(sessions.c.id.in_(ids))).all())
    for one in ids:
        session.stop(tx, one, now)
    of_goals = _goals_of(tx, ids)
    tx.execute(delete(tries).where(tries.c.goal_id.in_(of_goals)))
    tx.execute(delete(observations).where(observations.c.task_id.in_(of_goals)))
    for table in reversed(metadata.sorted_tables):
        if "session_id" in table.c:
            tx.execute(delete(table).where(table.c.session_id.in_(ids)))
    tx.execute(delete(deliveries).where(deliveries.c.chat_key == person_id))
    tx.execute(delete(sessions).where(sessions.c.id.in_(ids)))
    tx.execute(delete(people).where(people.c.id == person_id))
    return keys


def is_known(tx: Tx, person_id: str) -> bool:
    return tx.scalar(select(people.c.id).where(people.c.id == person_id)) is not None or bool(
        session_ids(tx, person_id)
    )
