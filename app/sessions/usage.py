"""What model calls cost: reserved before a call under its run and step, settled after it, or released."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, case, delete, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ColumnElement

from app.db import Tx, moment
from app.tables import calls, messages, sessions, turns, usage

RESERVED = "reserved"
SETTLED = "settled"

RESERVED_FOR = timedelta(hours=1)
"""A reservation counts this long at most: its process may have died, and its turn may never go on."""

CHILD_KEY = "task:"
"""A sub-agent's session key is `task:<run of the parent's turn>:<step of the call>`."""


@dataclass(frozen=True)
class Amount:
    """Tokens of both ways, and dollars as far as prices are known."""

    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.usd + other.usd)


@dataclass(frozen=True)
class Price:
    """One model call as counted, or as estimated before it."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None

    @property
    def amount(self) -> Amount:
        return Amount(self.input_tokens + self.output_tokens, self.cost_usd or 0.0)


def reserve(tx: Tx, session_id: str, run_id: str, step_key: str, price: Price, now: datetime) -> None:
    """Hold what a call may cost. A step that runs again holds it once."""
    _put(tx, session_id, run_id, step_key, price, now, RESERVED)


def settle(tx: Tx, session_id: str, run_id: str, step_key: str, price: Price, now: datetime) -> None:
    """Note what a call did cost, in the place of what was held for it; the first note stays."""
    _put(tx, session_id, run_id, step_key, price, now, SETTLED)


def _put(tx: Tx, session_id: str, run_id: str, step_key: str, price: Price, now: datetime, state: str) -> None:
    values = {
        "run_id": run_id,
        "step_key": step_key,
        "session_id": session_id,
        "model": price.model,
        "input_tokens": price.input_tokens,
        "output_tokens": price.output_tokens,
        "cost_usd": price.cost_usd,
        "state": state,
        "at": now,
    }
    tx.execute(PUT[tx.dialect.name], values)


def _put_statement(insert: Any) -> Any:
    """Insert, or replace what is only reserved under the same key."""
    changed = {name: insert.excluded[name] for name in usage.c.keys() if name not in ("run_id", "step_key")}
    return insert.on_conflict_do_update(
        index_elements=["run_id", "step_key"], set_=changed, where=usage.c.state == RESERVED
    )


PUT = {"sqlite": _put_statement(sqlite.insert(usage)), "postgresql": _put_statement(postgresql.insert(usage))}


def release(tx: Tx, run_id: str, step_key: str) -> None:
    """Give back what was held for a call that gave no answer."""
    tx.execute(delete(usage).where(usage.c.run_id == run_id, usage.c.step_key == step_key, usage.c.state == RESERVED))


def release_older(tx: Tx, session_id: str, run_id: str) -> None:
    """Give back what other turns of the session hold: a newer one has taken over. A late answer is settled all the
    same."""
    tx.execute(
        delete(usage).where(usage.c.session_id == session_id, usage.c.run_id != run_id, usage.c.state == RESERVED)
    )


@dataclass(frozen=True)
class LastCall:
    """What the newest thought of a session took, as its provider counted."""

    input_tokens: int
    output_tokens: int
    at: datetime


def _last_thought() -> Any:
    newest_summary = (
        select(func.max(messages.c.created_at))
        .where(messages.c.session_id == bindparam("session"), messages.c.role == "summary")
        .scalar_subquery()
    )
    return (
        select(usage.c.input_tokens, usage.c.output_tokens, usage.c.at)
        .where(usage.c.session_id == bindparam("session"), usage.c.state == SETTLED, usage.c.input_tokens > 0)
        .where(usage.c.step_key.startswith("think#"))
        .where(or_(newest_summary.is_(None), usage.c.at > newest_summary))
        .order_by(usage.c.at.desc(), usage.c.run_id.desc(), usage.c.step_key.desc())
        .limit(1)
    )


LAST_THOUGHT = _last_thought()


def last_thought(tx: Tx, session_id: str) -> LastCall | None:
    """The newest counted thought since the newest summary: before that, the context was another one."""
    row = tx.execute(LAST_THOUGHT, {"session": session_id}).first()
    return LastCall(row.input_tokens, row.output_tokens, moment(row.at) or row.at) if row is not None else None


@dataclass(frozen=True)
class Scope:
    """Whose spending counts: of a turn, of its session, and since the day began; sub-agents count with who asked."""

    run_id: str
    session_id: str
    session_key: str
    day: datetime


def _sum(which: ColumnElement[bool]) -> Any:
    mine = and_(usage.c.run_id == bindparam("own_run"), usage.c.step_key == bindparam("own_step"))
    return select(
        func.coalesce(func.sum(usage.c.input_tokens + usage.c.output_tokens), 0),
        func.coalesce(func.sum(usage.c.cost_usd), 0.0),
    ).where(which, ~mine, or_(usage.c.state == SETTLED, usage.c.at > bindparam("fresh")))


def _sums() -> dict[str, Any]:
    children = (
        select(sessions.c.id)
        .join(calls, calls.c.child_key == sessions.c.key)
        .where(calls.c.session_id == bindparam("root_session"))
    )
    of_turn = children.where(calls.c.child_key.startswith(bindparam("children")))
    return {
        "turn": _sum(or_(usage.c.run_id == bindparam("root_run"), usage.c.session_id.in_(of_turn))),
        "session": _sum(or_(usage.c.session_id == bindparam("root_session"), usage.c.session_id.in_(children))),
        "day": _sum(usage.c.at >= bindparam("day")),
    }


SUMS = _sums()


def spent(tx: Tx, scope: Scope, step_key: str, now: datetime, of: Collection[str] = tuple(SUMS)) -> dict[str, Amount]:
    """What was spent and is held by turn, session and day (those in `of`), without what this very step holds."""
    is_child = scope.session_key.startswith(CHILD_KEY)
    root_run = scope.session_key[len(CHILD_KEY) :].partition(":")[0] if is_child else scope.run_id
    asked = tx.scalar(select(turns.c.session_id).where(turns.c.run_id == root_run)) if is_child else None
    facts = {
        "root_run": root_run,
        "root_session": asked or scope.session_id,
        "children": f"{CHILD_KEY}{root_run}:",
        "day": scope.day,
        "fresh": now - RESERVED_FOR,
        "own_run": scope.run_id,
        "own_step": step_key,
    }
    found = {}
    for name in of:
        tokens, usd = tx.execute(SUMS[name], facts).one()
        found[name] = Amount(int(tokens), float(usd))
    return found


def report(tx: Tx, by: str, since: datetime) -> list[dict[str, Any]]:
    """Calls, tokens and dollars since a moment, by `session` (its key; sub-agents each), `model`, or hour (`day`).

    `unpriced` counts calls whose model has no known price. Days depend on a time zone, so hours are for the caller
    to add up.
    """
    name: ColumnElement[Any]
    source: Any = usage
    if by == "session":
        source = usage.outerjoin(sessions, sessions.c.id == usage.c.session_id)
        name = func.coalesce(sessions.c.key, usage.c.session_id)
    else:
        name = usage.c.model if by == "model" else usage.c.at
    columns = (
        func.count().label("calls"),
        func.coalesce(func.sum(usage.c.input_tokens), 0).label("input_tokens"),
        func.coalesce(func.sum(usage.c.output_tokens), 0).label("output_tokens"),
        func.coalesce(func.sum(usage.c.cost_usd), 0.0).label("cost_usd"),
        func.sum(case((usage.c.cost_usd.is_(None), 1), else_=0)).label("unpriced"),
    )
    settled = and_(usage.c.state == SETTLED, usage.c.at >= since)
    query = select(name.label("name"), *columns).select_from(source).where(settled).group_by(name)
    rows: Sequence[Any] = tx.execute(query).all()
    return [dict(row._mapping) for row in rows]
