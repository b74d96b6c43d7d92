"""What to do after a model call that failed: a pure decision on counted facts."""

from dataclasses import dataclass, replace
from typing import Literal

from app.agent.models.llm import Trouble
from app.sentences import Sentence

WAITS_S = (2.0, 8.0, 30.0)
"""Pauses where the provider names none."""

MAX_WAITS = len(WAITS_S)
MAX_SHRINKS = 6
MAX_COMPACTIONS = 3
"""How often in a row a turn may summarise before it has to think."""

SUMMARY_TRIES = 2
"""How often a model is asked for a summary that helps; then one is made without a model."""

Move = Literal["wait", "fall_back", "compact", "shrink", "close_eyes", "explain"]


@dataclass(frozen=True)
class Trials:
    """What was tried so far in this turn; `waits` start again after a success, what was too long stays too long."""

    waits: int = 0
    shrinks: int = 0
    fell_back: bool = False
    compacted: bool = False
    blind: bool = False

    def succeeded(self) -> "Trials":
        return replace(self, waits=0)


def next_move(trouble: Trouble, trials: Trials, *, has_fallback: bool, saw: bool = False) -> tuple[Move, Trials]:
    """The move and the trials with it counted.

    Overflow is summarised, then shrunk, and never falls back: another model is not for that. What is refused, and a
    model that is away, falls back at once; an overloaded one is waited for first. A request with pictures that is not
    accepted (`saw`) is made again without them: one of them may be what the provider cannot take.
    """
    can_fall_back = has_fallback and not trials.fell_back
    if trouble is Trouble.OVERFLOW:
        if not trials.compacted:
            return "compact", replace(trials, compacted=True)
        if trials.shrinks < MAX_SHRINKS:
            return "shrink", replace(trials, shrinks=trials.shrinks + 1)
        return "explain", trials
    if trouble is Trouble.INVALID and saw and not trials.blind:
        return "close_eyes", replace(trials, blind=True)
    away = trouble is Trouble.UNAVAILABLE
    patient = trouble is Trouble.OVERLOADED or (away and not can_fall_back)
    if patient and trials.waits < MAX_WAITS:
        return "wait", replace(trials, waits=trials.waits + 1)
    if can_fall_back and trouble is not Trouble.INVALID:
        return "fall_back", replace(trials, fell_back=True, waits=0)
    return "explain", trials


def pause_s(waits: int, retry_after_s: float | None) -> float:
    """How long to wait before try number `waits` + 1, in seconds: as long as the provider asked."""
    return retry_after_s if retry_after_s is not None else WAITS_S[min(waits, MAX_WAITS - 1)]


EXPLANATIONS = {
    Trouble.OVERLOADED: Sentence("The model is overloaded right now. Please try again in a few minutes."),
    Trouble.REJECTED: Sentence(
        "The model provider refused the request: the key, the model's name or the access is not right."
    ),
    Trouble.QUOTA: Sentence("The account at the model provider has no quota or credit left."),
    Trouble.OVERFLOW: Sentence(
        "This conversation is too long for the model, even shortened. Start a fresh one with /new."
    ),
    Trouble.UNAVAILABLE: Sentence("The model cannot be reached right now. Please try again later."),
    Trouble.INVALID: Sentence("The model provider did not accept the request."),
}
