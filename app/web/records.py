"""What the app database knows of a run: the model's words, its calls with their results, and what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select

from app.db import Tx
from app.tables import calls, messages, sessions, turns, usage


@dataclass(frozen=True)
class CallNote:
    """One tool call: what was asked and what came of it (`result` is None while there is nothing)."""

    step_key: str
    name: str
    arguments: str
    effect: str
    state: str
    ok: bool | None
    result: str | None
    artifact: str | None
    child_key: str | None
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True)
class ThoughtNote:
    """The model's words in one think step, and the calls that it asked for."""

    text: str
    model: str
    draft: bool
    calls: tuple[CallNote, ...] = ()


@dataclass(frozen=True)
class UsageNote:
    """What one thought took."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True)
class Spent:
    """What a run took in all. `cost_usd` is None when no price is known."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True)
class TurnNotes:
    """Everything recorded under one run id; empty for runs that are no turns. Keys are step keys."""

    state: str | None = None
    model: str | None = None
    error: str | None = None
    outcome: str | None = None
    summary: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    inputs: tuple[str, ...] = ()
    thoughts: dict[str, ThoughtNote] = field(default_factory=dict)
    calls: dict[str, CallNote] = field(default_factory=dict)
    usage: dict[str, UsageNote] = field(default_factory=dict)

    @property
    def spent(self) -> Spent | None:
        """The sum of all thoughts, None when there was none."""
        if not self.usage:
            return None
        rows = list(self.usage.values())
        costs = [row.cost_usd for row in rows if row.cost_usd is not None]
        return Spent(
            sum(row.input_tokens for row in rows), sum(row.output_tokens for row in rows), sum(costs) if costs else None
        )


TURN_COLUMNS = ("state", "model", "error", "outcome", "summary", "session_id")
CALL_COLUMNS = [calls.c[name] for name in CallNote.__dataclass_fields__]


def turn_notes(tx: Tx, run_id: str) -> TurnNotes:
    """What is recorded under a run id."""
    turn = tx.execute(
        select(*(turns.c[name] for name in TURN_COLUMNS), sessions.c.key)
        .join(sessions, sessions.c.id == turns.c.session_id)
        .where(turns.c.run_id == run_id)
    ).first()
    by_message = calls_by_message(tx, select(messages.c.id).where(messages.c.run_id == run_id))
    thoughts = {
        row.step_key: ThoughtNote(
            row.text, str(row.data.get("model", "")), bool(row.data.get("draft")), tuple(by_message.get(row.id, ()))
        )
        for row in tx.execute(
            select(messages.c.id, messages.c.step_key, messages.c.text, messages.c.data)
            .where(messages.c.run_id == run_id, messages.c.role == "assistant")
            .order_by(messages.c.id)
        )
    }
    return TurnNotes(
        **({} if turn is None else dict(zip((*TURN_COLUMNS, "session_key"), turn, strict=True))),
        inputs=_inputs(tx, run_id),
        thoughts=thoughts,
        calls={call.step_key: call for found in by_message.values() for call in found},
        usage=_usage(tx, run_id),
    )


def calls_by_message(tx: Tx, message_ids: Any) -> dict[int, list[CallNote]]:
    """The calls of these messages (ids, or a query of them), in order."""
    found: dict[int, list[CallNote]] = {}
    theirs = select(messages.c.session_id).where(messages.c.id.in_(message_ids))  # the index of calls begins with it
    query = select(calls.c.message_id, *CALL_COLUMNS).where(
        calls.c.session_id.in_(theirs), calls.c.message_id.in_(message_ids)
    )
    for message_id, *fields in tx.execute(query.order_by(calls.c.message_id, calls.c.position)):
        found.setdefault(message_id, []).append(CallNote(*fields))
    return found


def _inputs(tx: Tx, run_id: str) -> tuple[str, ...]:
    """What the run answered, as it was said."""
    query = select(messages.c.text).where(messages.c.answered_by == run_id).order_by(messages.c.id)
    return tuple(tx.scalars(query))


def _usage(tx: Tx, run_id: str) -> dict[str, UsageNote]:
    query = select(
        usage.c.step_key, usage.c.model, usage.c.input_tokens, usage.c.output_tokens, usage.c.cost_usd
    ).where(usage.c.run_id == run_id)
    return {step_key: UsageNote(*fields) for step_key, *fields in tx.execute(query)}


def spent_by_run(tx: Tx, run_ids: Sequence[str]) -> dict[str, tuple[int, float | None]]:
    """(tokens, cost) of each of these runs that thought."""
    query = select(usage.c.run_id, usage.c.input_tokens + usage.c.output_tokens, usage.c.cost_usd)
    found: dict[str, tuple[int, float | None]] = {}
    for run_id, tokens, cost in tx.execute(query.where(usage.c.run_id.in_(run_ids))):
        before, paid = found.get(run_id, (0, None))
        found[run_id] = (before + tokens, paid if cost is None else (paid or 0) + cost)
    return found
