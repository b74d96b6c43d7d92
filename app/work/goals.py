"""Goals: a row each, and one for every try of a step; how they stand is in the ledger and nowhere else.

`closed_at` and `ended_at` are the indexes of what is open: they follow the ledger, in the transaction that writes it.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from app.db import Tx, insert_if_absent, moment
from app.events import wire_safe
from app.goal_tables import goals, seen_files, tries
from app.tables import sessions, turns
from app.work.pipeline import Pipeline
from app.work.watcher import Entry

PAGE = 50
WATCHED = "watched"
"""Name of the fact whether a goal's source came from a watched folder."""


@dataclass(frozen=True)
class Goal:
    """One goal. `facts` are what its pipeline's placeholders stand for; the pipeline is as it was when it was made.

    `digest` is of its source file's content, `session_id` the conversation that is told of it.
    """

    id: str
    pipeline: Pipeline
    facts: Mapping[str, str]
    digest: str | None
    rank: int
    session_id: str | None
    created_at: datetime
    closed_at: datetime | None = None

    @property
    def title(self) -> str:
        return self.facts["title"]

    @property
    def is_dropped(self) -> bool:
        """Whether its source lay in a watched folder; what was named elsewhere belongs to a person."""
        return self.facts.get(WATCHED) != "no"


@dataclass(frozen=True)
class Claim:
    """One try of a step: a lease of it. When it may begin, which run has it, and whether it is given back."""

    goal_id: str
    step: str
    number: int
    due_at: datetime
    run_id: str | None = None
    ended_at: datetime | None = None

    @property
    def id(self) -> str:
        """What events call it."""
        return f"{self.goal_id}/{self.step}/{self.number}"


def goal_id(identity: str) -> str:
    """The id of the goal that something of this identity makes: the same thing makes it once."""
    return "g" + hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:10]


def add(tx: Tx, goal: Goal) -> bool:
    """Write a goal down; False if there is one of its id."""
    row = {
        "id": goal.id,
        "pipeline": goal.pipeline.name,
        "template": wire_safe(goal.pipeline),
        "facts": wire_safe(goal.facts),
        "digest": goal.digest,
        "rank": goal.rank,
        "session_id": goal.session_id,
        "created_at": goal.created_at,
    }
    return insert_if_absent(tx, goals, row)


def find(tx: Tx, goal_id: str) -> Goal | None:
    row = tx.execute(select(goals).where(goals.c.id == goal_id)).first()
    return _goal(row) if row is not None else None


def of_digest(tx: Tx, pipeline: str, digest: str) -> Goal | None:
    """The first goal that this content became in this pipeline."""
    query = select(goals).where(goals.c.digest == digest, goals.c.pipeline == pipeline).order_by(goals.c.created_at)
    row = tx.execute(query.limit(1)).first()
    return _goal(row) if row is not None else None


def has_slug(tx: Tx, slug: str, day: str) -> bool:
    """Whether a goal of this day has this short name."""
    facts = (goals.c.facts["slug"].as_string() == slug, goals.c.facts["date"].as_string() == day)
    lately = goals.c.created_at >= datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=1)  # in any zone
    return tx.scalar(select(goals.c.id).where(lately, *facts).limit(1)) is not None


ANY_OPEN = select(goals.c.id).where(goals.c.closed_at.is_(None))
"""Goals that have not come to their end."""


def open_goals(tx: Tx) -> Iterator[Goal]:
    """Goals that have not come to their end, who goes first first; read page by page."""
    query = select(goals).where(goals.c.closed_at.is_(None)).order_by(goals.c.rank, goals.c.created_at, goals.c.id)
    offset = 0
    while rows := tx.execute(query.limit(PAGE).offset(offset)).all():
        yield from map(_goal, rows)
        offset += PAGE


def recent(tx: Tx, limit: int, *, only_open: bool = False, session_key: str | None = None) -> list[Goal]:
    """The newest goals, newest first; with `session_key` those that this conversation is told of."""
    query = select(goals).order_by(goals.c.created_at.desc(), goals.c.id).limit(limit)
    if only_open:
        query = query.where(goals.c.closed_at.is_(None))
    if session_key is not None:
        query = query.where(goals.c.session_id.in_(select(sessions.c.id).where(sessions.c.key == session_key)))
    return [_goal(row) for row in tx.execute(query)]


def _goal(row: Any) -> Goal:
    return Goal(
        row.id,
        Pipeline.model_validate(row.template),
        row.facts,
        row.digest,
        row.rank,
        row.session_id,
        moment(row.created_at) or row.created_at,
        moment(row.closed_at),
    )


def close(tx: Tx, goal_id: str, now: datetime) -> None:
    """Take a goal that has come to its end, if this is one, out of what is open, with all its tries."""
    tx.execute(update(goals).where(goals.c.id == goal_id, goals.c.closed_at.is_(None)).values(closed_at=now))
    tx.execute(update(tries).where(tries.c.goal_id == goal_id, tries.c.ended_at.is_(None)).values(ended_at=now))


def reopen(tx: Tx, goal_id: str) -> None:
    """Let a goal that had come to its end, if this is one, go on."""
    tx.execute(update(goals).where(goals.c.id == goal_id).values(closed_at=None))


def set_rank(tx: Tx, goal_id: str, rank: int) -> None:
    tx.execute(update(goals).where(goals.c.id == goal_id).values(rank=rank))


def claims_of(tx: Tx, goal_id: str) -> list[Claim]:
    """The tries of a goal's steps."""
    query = select(tries).where(tries.c.goal_id == goal_id).order_by(tries.c.step, tries.c.number)
    return [_claim(row) for row in tx.execute(query)]


def find_claim(tx: Tx, goal_id: str, step: str, number: int) -> Claim | None:
    key = (tries.c.goal_id == goal_id, tries.c.step == step, tries.c.number == number)
    row = tx.execute(select(tries).where(*key)).first()
    return _claim(row) if row is not None else None


def add_claim(tx: Tx, claim: Claim) -> bool:
    """Let a try be; False if it is there."""
    row = {"goal_id": claim.goal_id, "step": claim.step, "number": claim.number, "due_at": claim.due_at}
    return insert_if_absent(tx, tries, row)


def begin(tx: Tx, claim: Claim, run_id: str) -> bool:
    """Take a try for a run; False if another has it or it has ended."""
    key = (tries.c.goal_id == claim.goal_id, tries.c.step == claim.step, tries.c.number == claim.number)
    free = tries.c.run_id.is_(None), tries.c.ended_at.is_(None)
    if tx.execute(update(tries).where(*key, *free).values(run_id=run_id)).rowcount:
        return True
    found = find_claim(tx, claim.goal_id, claim.step, claim.number)
    return found is not None and found.run_id == run_id and found.ended_at is None


def end(tx: Tx, claim: Claim, now: datetime) -> bool:
    """Note that a try has ended; False if it had before."""
    key = (tries.c.goal_id == claim.goal_id, tries.c.step == claim.step, tries.c.number == claim.number)
    return tx.execute(update(tries).where(*key, tries.c.ended_at.is_(None)).values(ended_at=now)).rowcount > 0


def make_due(tx: Tx, goal_id: str, now: datetime) -> list[Claim]:
    """Let the tries of a goal that wait for their time begin now; these tries."""
    waiting = (tries.c.goal_id == goal_id, tries.c.run_id.is_(None), tries.c.ended_at.is_(None), tries.c.due_at > now)
    found = [replace(_claim(row), due_at=now) for row in tx.execute(select(tries).where(*waiting))]
    tx.execute(update(tries).where(*waiting).values(due_at=now))
    return found


def count_running(tx: Tx, now: datetime) -> int:
    """How many tries run or are about to; those that wait for a person hold nobody up."""
    waiting = select(turns.c.run_id).where(turns.c.run_id == tries.c.run_id, turns.c.waiting_until > now).exists()
    query = select(func.count()).select_from(tries).where(tries.c.ended_at.is_(None), tries.c.due_at <= now, ~waiting)
    return tx.scalar(query) or 0


def open_claims(tx: Tx, due_before: datetime) -> list[Claim]:
    """Tries that have not ended and could have begun before `due_before`."""
    query = select(tries).where(tries.c.ended_at.is_(None), tries.c.due_at <= due_before).order_by(tries.c.due_at)
    return [_claim(row) for row in tx.execute(query.limit(200))]


def _claim(row: Any) -> Claim:
    due_at = moment(row.due_at) or row.due_at
    return Claim(row.goal_id, row.step, row.number, due_at, row.run_id, moment(row.ended_at))


SEEN = select(seen_files.c.path, seen_files.c.size, seen_files.c.mtime_ns)


def seen(tx: Tx) -> dict[str, tuple[int, int]]:
    """Size and modification time of every file that was looked at, by its path."""
    return {path: (size, mtime_ns) for path, size, mtime_ns in tx.execute(SEEN)}


def note_seen(tx: Tx, entries: Sequence[Entry], gone: Sequence[str], now: datetime) -> None:
    """Note files as they are now, and forget those that are gone."""
    for some in _pages([*gone, *(entry.path for entry in entries)]):
        tx.execute(delete(seen_files).where(seen_files.c.path.in_(some)))
    rows = [{"path": e.path, "size": e.size, "mtime_ns": e.mtime_ns, "seen_at": now} for e in entries]
    if rows:
        tx.execute(insert(seen_files), rows)


def _pages(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """SQLite takes so many values in one statement."""
    return (paths[start : start + 500] for start in range(0, len(paths), 500))
