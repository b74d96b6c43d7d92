"""A goal's life: which steps may begin, when a failed one is tried again, and what a poor product takes back. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from app.work.pipeline import Pipeline, behind

DELAYS = (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10))
"""How long after its first, second and third failure a step is tried again."""


class Life(StrEnum):
    """CREATED -> IN_PROGRESS -> COMPLETED, or FAILED -> RETRY -> FAILED_PERMANENT; or a person ends it."""

    CREATED = "CREATED"
    IN_PROGRESS = "IN_PROGRESS"
    FAILED = "FAILED"
    RETRY = "RETRY"
    COMPLETED = "COMPLETED"
    FAILED_PERMANENT = "FAILED_PERMANENT"
    CANCELLED = "CANCELLED"


class Priority(StrEnum):
    """Who goes first, in this order."""

    PERSON = "person"
    FILE = "file"
    INTERRUPTED = "interrupted"
    BATCH = "batch"

    @property
    def rank(self) -> int:
        return list(Priority).index(self)


class Outcome(StrEnum):
    """How one try of a step ended; after `hopeless` no other is worth it."""

    DONE = "done"
    FAILED = "failed"
    HOPELESS = "hopeless"


@dataclass(frozen=True)
class Try:
    """One try of a step. `begun`: a run has it. `void`: what came of it counts no more, because it is done again."""

    step: str
    number: int
    begun: bool = False
    outcome: Outcome | None = None
    void: bool = False


def done_steps(tries: Iterable[Try]) -> set[str]:
    return {one.step for one in tries if one.outcome is Outcome.DONE and not one.void}


def ready(pipeline: Pipeline, tries: Sequence[Try]) -> list[str]:
    """Steps that may begin now: untried (or to be done again), and all they need is done. In the file's order."""
    done = done_steps(tries)
    taken = {one.step for one in tries if not one.void}
    return [step.id for step in pipeline.steps if step.id not in taken and done.issuperset(step.needs)]


def is_complete(pipeline: Pipeline, tries: Iterable[Try]) -> bool:
    return done_steps(tries).issuperset(step.id for step in pipeline.steps)


def next_number(tries: Iterable[Try], step: str) -> int:
    """The number of the next try of a step, from 1."""
    return max((one.number for one in tries if one.step == step), default=0) + 1


def pause(pipeline: Pipeline, tries: Sequence[Try], step: str) -> timedelta | None:
    """How long to wait before a step that just failed is tried again; None if it has no try left."""
    ended = [one for one in tries if one.step == step and not one.void]
    failures = sum(one.outcome is Outcome.FAILED for one in ended)
    if any(one.outcome is Outcome.HOPELESS for one in ended) or failures > pipeline.step(step).max_retries:
        return None
    return DELAYS[min(failures, len(DELAYS)) - 1]


def taken_back(pipeline: Pipeline, check: str, redo: str) -> list[str]:
    """The steps to be done again when `check` wants `redo` better: itself and all that stands between the two."""
    before = behind(pipeline, check)
    between = {name for name in before if redo in behind(pipeline, name)}
    return [step.id for step in pipeline.steps if step.id in {redo, check} | between]


def open_life(tries: Sequence[Try]) -> Life:
    """What to call a goal that has not come to its end."""
    last = {one.step: one for one in sorted(tries, key=lambda one: one.number) if not one.void}
    again = [one for one in last.values() if one.outcome is None and _failed_before(tries, one)]
    if any(one.begun for one in again):
        return Life.RETRY
    if again or any(one.outcome in (Outcome.FAILED, Outcome.HOPELESS) for one in last.values()):
        return Life.FAILED
    return Life.IN_PROGRESS if any(one.begun for one in tries) else Life.CREATED


def _failed_before(tries: Sequence[Try], this: Try) -> bool:
    return any(
        one.step == this.step and one.number < this.number and one.outcome is Outcome.FAILED and not one.void
        for one in tries
    )
