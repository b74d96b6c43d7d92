"""Budgets of a turn, a session and a day: whether the next model call still fits, and what is said if not. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.config import Settings
from app.sessions.usage import Amount

OUTPUT_RESERVE_TOKENS = 16_000
"""What is held for an answer at most; models may write far more, and hardly ever do."""

HOW_TO_GO_ON = {
    "turn": "Write to me and I go on in a new turn.",
    "session": "/new starts a fresh conversation.",
    "day": "Tomorrow I go on; whoever runs me can raise the budget.",
}
WHOSE = {"turn": "this turn", "session": "this conversation", "day": "today"}


@dataclass(frozen=True)
class Limit:
    """What one scope (turn, session, day) may use; 0 is no limit."""

    scope: str
    tokens: int = 0
    usd: float = 0.0


def limits_of(settings: Settings) -> tuple[Limit, ...]:
    """The budgets that are set."""
    every = (
        Limit("turn", settings.budget_turn_tokens, settings.budget_turn_usd),
        Limit("session", settings.budget_session_tokens, settings.budget_session_usd),
        Limit("day", settings.budget_day_tokens, settings.budget_day_usd),
    )
    return tuple(limit for limit in every if limit.tokens or limit.usd)


def refusal(limits: Sequence[Limit], used: Mapping[str, Amount], wanted: Amount) -> str | None:
    """Why a call that may take `wanted` is not made, in words for the user; None if it fits everywhere."""
    for limit in limits:
        before = used[limit.scope]
        after = before.plus(wanted)
        name = f"BUDGET_{limit.scope.upper()}"
        if limit.tokens and after.tokens > limit.tokens:
            return _explained(limit.scope, f"{before.tokens:,} of {limit.tokens:,} tokens ({name}_TOKENS)")
        if limit.usd and after.usd > limit.usd:
            return _explained(limit.scope, f"${before.usd:.2f} of ${limit.usd:.2f} ({name}_USD)")
    return None


def _explained(scope: str, figures: str) -> str:
    return (
        f"I stopped here because of the budget for {WHOSE[scope]}: {figures} are used, and the next step might not "
        f"fit. {HOW_TO_GO_ON[scope]}"
    )
