"""What model calls cost: reserved before a call under its run and step, settled after it, or released."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, case, delete, func, or_, select, update
from sqlalchemy.sql import ColumnElement

from app.db import Tx, insert_if_absent, moment
from app.tables import messages, sessions, turns, usage

RESERVED = "reserved"
SETTLED = "settled"

RESERVED_FOR = timedelta(hours=1)
"""A reservation counts this long at most: its process may have died, and its turn may never go on."""

CHILD_KEY = "task:"
"""A sub-agent's session key is `task:<run of the parent's turn>:<step of the call>`."""

RUN_ID_CHARS = 26


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
        "session_id": session_id,
        "model": price.model,
        "input_tokens": price.input_tokens,
        "output_tokens": price.output_tokens,
        "cost_usd": price.cost_usd,
        "state": state,
        "at": now,
    }
    if insert_if_absent(tx, usage, {"run_id": run_id, "step_key": step_key} | values):
        return
    mine = and_(usage.c.run_id == run_id, usage.c.step_key == step_key, usage.c.state == RESERVED)
    tx.execute(update(usage).where(mine).values(values))


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


def last_thought(tx: Tx, session_id: str) -> LastCall | None:
    """The newest counted thought since the newest summary: before that, the context was another one."""
    newest_summary = (
        select(func.max(messages.c.created_at))
        .where(messages.c.session_id == session_id, messages.c.role == "summary")
        .scalar_subquery()
    )
    query = (
        select(usage.c.input_tokens, usage.c.output_tokens, usage.c.at)
        .where(usage.c.session_id == session_id, usage.c.state == SETTLED, usage.c.input_tokens > 0)
        .where(usage.c.step_key.startswith("think#"))
        .where(or_(newest_summary.is_(None), usage.c.at > newest_summary))
        .order_by(usage.c.at.desc(), usage.c.run_id.desc(), usage.c.step_key.desc())
        .limit(1)
    )
    row = tx.execute(query).first()
    return LastCall(row.input_tokens, row.output_tokens, moment(row.at) or row.at) if row is not None else None


@dataclass(frozen=True)
class Spent:
    """What was spent and is held, by the scopes that budgets know; sub-agents count with who asked them."""

    turn: Amount = Amount()
    session: Amount = Amount()
    day: Amount = Amount()


def spent(tx: Tx, session_id: str, run_id: str, session_key: str, day: datetime, now: datetime) -> Spent:
    """For the next call of a turn; `day` is when the day began."""
    root_run = session_key[len(CHILD_KEY) :].partition(":")[0] if session_key.startswith(CHILD_KEY) else run_id
    asked = tx.scalar(select(turns.c.session_id).where(turns.c.run_id == root_run))
    root_session = asked if root_run != run_id and asked is not None else session_id
    of_turn = select(sessions.c.id).where(sessions.c.key.startswith(f"{CHILD_KEY}{root_run}:", autoescape=True))
    its_turns = select(turns.c.run_id).where(turns.c.session_id == root_session)
    asked_by = func.substr(sessions.c.key, len(CHILD_KEY) + 1, RUN_ID_CHARS)
    of_session = select(sessions.c.id).where(sessions.c.key.startswith(CHILD_KEY), asked_by.in_(its_turns))
    return Spent(
        turn=_sum(tx, or_(usage.c.run_id == root_run, usage.c.session_id.in_(of_turn)), now),
        session=_sum(tx, or_(usage.c.session_id == root_session, usage.c.session_id.in_(of_session)), now),
        day=_sum(tx, usage.c.at >= day, now),
    )


def _sum(tx: Tx, which: ColumnElement[bool], now: datetime) -> Amount:
    query = select(
        func.coalesce(func.sum(usage.c.input_tokens + usage.c.output_tokens), 0),
        func.coalesce(func.sum(usage.c.cost_usd), 0.0),
    ).where(which, or_(usage.c.state == SETTLED, usage.c.at > now - RESERVED_FOR))
    tokens, usd = tx.execute(query).one()
    return Amount(int(tokens), float(usd))


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
