"""Budgets at work: what a call may take is reserved in the transaction before it, and settled with what it took."""

from collections.abc import Collection, Sequence
from datetime import datetime

from app.agent.context.coverage import visible, weight
from app.agent.context.window import CHARS_PER_TOKEN, window_of
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.models.budget import OUTPUT_RESERVE_TOKENS, limits_of, refusal
from app.agent.models.llm import Completion, Facts
from app.db import Tx
from app.sessions import usage
from app.sessions.transcript import Entry
from app.sessions.usage import LastCall, Price, Scope

PROMPT_TOKENS = 4_000
"""About what the system prompt and the tools take, before the first call of a session has been counted."""


def reserve(
    tx: Tx,
    harness: Harness,
    flow: Flow,
    step_key: str,
    model: str,
    facts: Facts,
    tokens: int,
    now: datetime,
    scopes: Collection[str] = ("turn", "session", "day"),
) -> str | None:
    """Hold what a call of about `tokens` may cost; or why it does not fit into a budget of these `scopes`, in words
    for the user.
    """
    limits = [limit for limit in limits_of(harness.settings) if limit.scope in scopes]
    if not limits or flow.compact:
        return None
    answer = min(facts.max_output or OUTPUT_RESERVE_TOKENS, OUTPUT_RESERVE_TOKENS)
    price = Price(model, tokens, answer, _usd(facts, tokens, answer))
    day = harness.daily_log.local(now).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(now.tzinfo)
    scope = Scope(flow.run_id, flow.session_id, flow.session_key, day)
    used = usage.spent(tx, scope, step_key, now, [limit.scope for limit in limits])
    refused = refusal(limits, used, price.amount)
    if refused is None:
        usage.reserve(tx, flow.session_id, flow.run_id, step_key, price, now)
    return refused


def settle(tx: Tx, flow: Flow, step_key: str, model: str, facts: Facts, answer: Completion, now: datetime) -> None:
    """Note what the call took: as the provider counted, at its price, or at the table's where it names none."""
    cost = answer.cost_usd if answer.cost_usd is not None else _usd(facts, answer.input_tokens, answer.output_tokens)
    price = Price(model, answer.input_tokens, answer.output_tokens, cost)
    usage.settle(tx, flow.session_id, flow.run_id, step_key, price, now)


def expected_tokens(harness: Harness, entries: Sequence[Entry], last: LastCall | None, facts: Facts) -> int:
    """About what the next thought is shown, before its messages are made."""
    if last is not None:
        spoken = max((place for place, entry in enumerate(entries) if entry.role == "assistant"), default=-1)
        fresh = entries[max(0, spoken) :]
        return last.input_tokens + last.output_tokens + sum(map(weight, fresh)) // CHARS_PER_TOKEN
    summary, shown = visible(entries)
    tokens = (len(summary) + sum(map(weight, shown))) // CHARS_PER_TOKEN + PROMPT_TOKENS
    return min(tokens, window_of(harness.settings.context_tokens, facts.window))


def _usd(facts: Facts, input_tokens: int, output_tokens: int) -> float | None:
    if facts.input_usd is None or facts.output_usd is None:
        return None
    return input_tokens * facts.input_usd + output_tokens * facts.output_usd
