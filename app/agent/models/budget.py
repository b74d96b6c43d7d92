"""Budgets of a turn, a session and a day: whether the next model call still fits, and what is said if not. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.config import Settings
from app.sentences import Sentence
from app.sessions.usage import Amount

OUTPUT_RESERVE_TOKENS = 16_000
"""What is held for an answer at most; models may write far more, and hardly ever do."""

SPENT = {
    "turn": Sentence(
        "I stopped here because of the budget for this turn: {figures} are used, and the next step might not fit. "
        "Write to me and I go on in a new turn."
    ),
    "session": Sentence(
        "I stopped here because of the budget for this conversation: {figures} are used, and the next step might not "
        "fit. /new starts a fresh conversation."
    ),
    "day": Sentence(
        "I stopped here because of the budget for today: {figures} are used, and the next step might not fit. Tomorrow "
        "I go on; whoever runs me can raise the budget."
    ),
}


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
            return SPENT[limit.scope].format(figures=f"{before.tokens:,} of {limit.tokens:,} tokens ({name}_TOKENS)")
        if limit.usd and after.usd > limit.usd:
            return SPENT[limit.scope].format(figures=f"${before.usd:.2f} of ${limit.usd:.2f} ({name}_USD)")
    return None
