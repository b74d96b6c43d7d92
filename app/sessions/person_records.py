"""Everything that is kept of one person or group: found, written out, and deleted.

What a person said in a group is a part of the group's conversation: see `person_words`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, delete, or_, select, update
from sqlalchemy.sql import ColumnElement

from app.db import Tx
from app.goal_tables import goals, tries
from app.sessions import deposit, person_words, session
from app.sessions.people import State, find, folder_of, revoke
from app.tables import (
    album_parts,
    calls,
    deliveries,
    distillations,
    learnings,
    messages,
    metadata,
    observations,
    pairings,
    people,
    sessions,
    supervision,
    tasks,
    turns,
    usage,
)

IMPERSONAL: Mapping[str, str] = {
    "rounds": "when the heartbeat did what; nobody is named in it",
    "seen_files": "what lies in the folders that the operator has watched",
}
"""Tables that say nothing about people, and why."""


@dataclass(frozen=True)
class Holdings:
    """What belongs to somebody: ids of sessions, runs, goals and learnings, and of tasks that are looked after for him.

    `keys` are those of the sessions and goals, as events name them; `said` those of what he wrote in groups, and of
    what quotes it. `files` came with messages: the session, and the path in the workspace of whom it works for.
    """

    person_id: str
    sessions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not (self.sessions or self.said)


def holdings(tx: Tx, person_id: str) -> Holdings:
    """What is there of a person (not the groups he spoke in, but what he said there) or of a group."""
    own, said = _own_sessions(tx, person_id), person_words.said(tx, person_id)
    ids = [*own, *(one for one in _kin(tx, own) if one not in own)]
    of_goals = _column(tx, goals.c.id, goals.c.session_id.in_(ids))
    keys = [*_column(tx, sessions.c.key, sessions.c.id.in_(ids)), *(f"goal:{one}" for one in of_goals)]
    runs = _column(tx, turns.c.run_id, turns.c.session_id.in_(ids))
    mine = {row.id for row in tx.execute(select(learnings)) if {_run(key) for key in row.seen} & set(runs)}
    tracked = _tracked(tx, keys, said)
    of_tasks = _column(tx, tasks.c.id, tasks.c.session_id.in_(ids))
    came = tx.execute(select(messages.c.session_id, messages.c.data).where(messages.c.session_id.in_(ids))).all()
    return Holdings(
        person_id,
        tuple(ids),
        tuple(dict.fromkeys(keys)),
        tuple(runs),
        tuple(of_goals),
        tuple(dict.fromkeys((*tracked, *of_goals, *of_tasks))),
        tuple(str(row.message_key) for row in (*said, *person_words.quoting(tx, said)) if row.message_key),
        tuple(sorted(mine)),
        tuple(person_words.files([*said, *came])),
    )


def _tracked(tx: Tx, keys: Sequence[str], said: Sequence[Any]) -> list[str]:
    """Tasks that are looked after, or only written down, for these conversations; and files that came with messages."""
    owner = observations.c.data["owner"].as_string().in_(keys)
    found = _column(tx, supervision.c.task_id, supervision.c.owner_key.in_(keys))
    found += _column(tx, observations.c.task_id, owner)
    for row in said:
        for number, _ in enumerate(row.data.get("attachments") or ()):
            found.append(deposit.file_task(row.id, number))
    return found


def _run(key: str) -> str:
    """The run in the key of a call that learned something: `run/step`."""
    return key.partition("/")[0]


def _column(tx: Tx, column: Any, condition: ColumnElement[bool]) -> list[str]:
    return [str(one) for one in tx.scalars(select(column).where(condition))]


def _own_sessions(tx: Tx, person_id: str) -> list[str]:
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
    # What only commands were given to, or was opened by being let in, has no message of his.
    known = tx.scalar(select(people.c.session_key).where(people.c.id == person_id))
    for one in _column(tx, sessions.c.id, sessions.c.key == known) if known else ():
        found[one] = None
    return list(found)


def _kin(tx: Tx, ids: Sequence[str]) -> list[str]:
    """The sessions of sub-agents and of steps of goals that worked for `ids`, and of theirs."""
    found: list[str] = []
    wave = list(ids)
    while wave:
        keys = [key for key in tx.scalars(select(calls.c.child_key).where(calls.c.session_id.in_(wave))) if key]
        keys += [f"task:{one}" for one in tx.scalars(select(tasks.c.id).where(tasks.c.session_id.in_(wave)))]
        for one in tx.scalars(select(goals.c.id).where(goals.c.session_id.in_(wave))):
            below = sessions.c.key.startswith(f"goal:{one}:", autoescape=True)
            keys += _column(tx, sessions.c.key, below)
        wave = [one for one in tx.scalars(select(sessions.c.id).where(sessions.c.key.in_(keys))) if one not in found]
        found += wave
    return found


def conditions(of: Holdings) -> dict[Table, ColumnElement[bool]]:
    """Which rows of each table are about somebody, in the order in which they can be deleted."""
    in_sessions = {
        table: table.c.session_id.in_(of.sessions)
        for table in reversed(metadata.sorted_tables)
        if "session_id" in table.c and table not in (deliveries, messages, goals)
    }
    folder = folder_of(of.person_id)
    return {
        tries: tries.c.goal_id.in_(of.goals),
        observations: observations.c.task_id.in_(of.watched),
        supervision: supervision.c.task_id.in_(of.watched),
        **in_sessions,
        goals: goals.c.id.in_(of.goals),
        deliveries: or_(deliveries.c.session_id.in_(of.sessions), deliveries.c.chat_key == of.person_id),
        messages: messages.c.session_id.in_(of.sessions),
        sessions: sessions.c.id.in_(of.sessions),
        album_parts: or_(
            album_parts.c.session_key.in_(of.keys),
            album_parts.c.event["sender"]["id"].as_string() == of.person_id.partition(":")[2],
        ),
        distillations: distillations.c.log.startswith(f"{folder}/", autoescape=True),
        learnings: learnings.c.id.in_(of.learned),
        pairings: or_(pairings.c.used_by == of.person_id, pairings.c.made_by == of.person_id),
        people: people.c.id == of.person_id,
    }


def export(tx: Tx, person_id: str) -> dict[str, Any]:
    """What is kept, by table, as JSON can say it; `saidInGroups` is what was said in conversations of groups."""
    of = holdings(tx, person_id)
    found: dict[str, Any] = {
        table.name: [_plain(dict(row._mapping)) for row in tx.execute(select(table).where(mine))]
        for table, mine in conditions(of).items()
    }
    return found | {"saidInGroups": [_plain(dict(row._mapping)) for row in person_words.said(tx, person_id)]}


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def forget(tx: Tx, person_id: str, now: datetime) -> None:
    """Delete every row about a person or group, and blank what he said in groups. What runs is stopped first.

    Of somebody who is shut out the id stays with that word, else the settings would let him in again.
    """
    of, known = holdings(tx, person_id), find(tx, person_id)
    for one in of.sessions:
        session.stop(tx, one, now)
    for table, mine in conditions(of).items():
        if table is usage:
            tx.execute(update(usage).where(mine).values(session_id=person_words.FORGOTTEN))
        else:
            tx.execute(delete(table).where(mine))
    person_words.blank(tx, person_id)
    tx.execute(update(people).where(people.c.paired_by == person_id).values(paired_by=None))
    if known is not None and known.state == State.REVOKED:
        revoke(tx, person_id, now)


def is_known(tx: Tx, person_id: str) -> bool:
    is_listed = tx.scalar(select(people.c.id).where(people.c.id == person_id)) is not None
    return is_listed or not holdings(tx, person_id).is_nothing
