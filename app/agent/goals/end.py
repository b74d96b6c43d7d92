"""How a try ends, and what follows: the next steps, another try after a while, or the end of the goal. Transactions."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from app.agent.approvals.closing import Place
from app.agent.goals.dispatch import claim_of, dispatch, standing_of, start_again, start_event
from app.agent.goals.text import failed
from app.agent.harness import Harness
from app.agent.heartbeat.telling import tell
from app.channels import outbox
from app.db import Tx
from app.ids import new_id
from app.sentences import Sentence
from app.sessions import deposit, session, turns
from app.work import goals, ledger, tracking
from app.work.goals import Claim, Goal
from app.work.life import Outcome, Priority, Try, is_complete, pause, taken_back
from app.work.observation import Kind, Observation
from app.work.standing import Standing

REDONE = Sentence("{step} was made again {count} times and is still not good enough: {hint}")
PIPELINE = "pipeline"
"""Who observes the steps of goals, as the ledger names it."""

LAST_RESORT = "terminal:default"
"""The conversation that is told where nobody ever spoke."""

MAX_REDOS = 2
"""How often a check may have a product made again; then it is as good as it gets, and not good enough."""

MAX_REASON_CHARS = 1_000


@dataclass(frozen=True)
class Failure:
    """Why a try came to nothing. `hopeless`: another would not either. `cause` is what the ledger calls it."""

    reason: str
    hopeless: bool = False
    cause: str = "EXECUTION_ERROR"
    retry_after_s: float = 0.0


def end_done(tx: Tx, harness: Harness, claim: Claim, product: str, summary: str) -> list[dict[str, Any]]:
    """Note what a try made; the events that start what is ready now. A repeat only starts again what did not begin."""
    now = harness.clock.now()
    if not _end(tx, claim, harness):
        return _again(tx, harness, claim)
    data = {"try": claim.number, "product": product}
    _observe(tx, harness, claim, Kind.STEP_COMPLETED, "done", summary, data)
    goal = goals.find(tx, claim.goal_id)
    if goal is not None and goal.closed_at is None and is_complete(goal.pipeline, standing_of(tx, goal).tries):
        key = f"{claim.step}#{claim.number}:completed"
        tracking.record(tx, Observation(goal.id, Kind.TASK_COMPLETED, key, now, PIPELINE))
    return dispatch(tx, harness)


def end_redo(tx: Tx, harness: Harness, claim: Claim, redo: str, hint: str) -> list[dict[str, Any]]:
    """A check wants a product made again: it and what stands between the two begin anew, so many times."""
    goal = goals.find(tx, claim.goal_id)
    stands = standing_of(tx, goal) if goal is not None else None
    if goal is None or stands is None or stands.redone.get(claim.step, 0) >= MAX_REDOS:
        reason = REDONE.format(step=redo, count=MAX_REDOS, hint=hint)
        return end_failed(tx, harness, claim, Failure(reason, hopeless=True))
    if not _end(tx, claim, harness):
        return _again(tx, harness, claim)
    for step in taken_back(goal.pipeline, claim.step, redo):
        through = max((one.number for one in stands.tries if one.step == step), default=0)
        data = {"through": through, "by": claim.step} | ({"hint": hint} if step == redo else {})
        key = f"{claim.step}#{claim.number}:redo:{step}"
        now = harness.clock.now()
        ledger.append(tx, Observation(goal.id, Kind.OWNER_RESUMED, key, now, PIPELINE, step, hint, data))
    return dispatch(tx, harness)


def end_failed(tx: Tx, harness: Harness, claim: Claim, failure: Failure) -> list[dict[str, Any]]:
    """Note why a try failed; what follows: another try after a growing while, or the end of the goal, told once."""
    goal = goals.find(tx, claim.goal_id)
    if goal is None or not _end(tx, claim, harness):
        return _again(tx, harness, claim)
    wait = pause(goal.pipeline, _with_failure(standing_of(tx, goal), claim, failure), claim.step)
    data = {"reason": failure.cause, "try": claim.number, "hopeless": failure.hopeless, "final": wait is None}
    _observe(tx, harness, claim, Kind.BLOCKED_CONFIRMED, "failed", failure.reason, data)
    if goal.closed_at is not None:
        return dispatch(tx, harness)
    if wait is None:
        return _tell_failed(tx, harness, goal, f"{claim.step}/{claim.number}")
    again = replace(
        claim,
        number=claim.number + 1,
        due_at=harness.clock.now() + max(wait, timedelta(seconds=failure.retry_after_s)),
        run_id=None,
    )
    goals.add_claim(tx, again)
    if goal.rank not in (Priority.PERSON.rank, Priority.BATCH.rank):
        goals.set_rank(tx, goal.id, Priority.INTERRUPTED.rank)
    return [start_event(again), *dispatch(tx, harness)]


def give_up(tx: Tx, harness: Harness, goal: Goal, reason: str) -> list[dict[str, Any]]:
    """End a goal that cannot even begin, and tell its user once; the events that say so."""
    data = {"reason": "EXECUTION_ERROR", "final": True}
    now = harness.clock.now()
    tracking.record(tx, Observation(goal.id, Kind.BLOCKED_CONFIRMED, "source", now, PIPELINE, None, reason, data))
    return _tell_failed(tx, harness, goal, "source")


def _tell_failed(tx: Tx, harness: Harness, goal: Goal, what: str) -> list[dict[str, Any]]:
    text = failed(standing_of(tx, goal), outbox.language_of(tx, goal.session_id or ""))
    critical = goal.rank == Priority.PERSON.rank
    told = tell_goal(tx, harness, goal, f"goal/{goal.id}/failed/{what}", text, critical=critical)
    return told + dispatch(tx, harness)


def tell_goal(
    tx: Tx, harness: Harness, goal: Goal, key: str, text: str, *, critical: bool = False
) -> list[dict[str, Any]]:
    """Tell the conversation of a goal, once per `key`; the events that send it."""
    place = deposit.last_place(tx, goal.session_id) if goal.session_id is not None else None
    if place is not None and goal.session_id is not None:
        return tell(tx, harness, key, goal.session_id, place, text, critical=critical)
    session_id = session.open_session(tx, LAST_RESORT, new_id(harness.clock), harness.clock.now())
    return tell(tx, harness, key, session_id, Place("terminal", {"chatId": LAST_RESORT}), text, critical=critical)


def fail_try(tx: Tx, harness: Harness, run_id: str, task_id: str, reason: str) -> list[dict[str, Any]]:
    """The run of a try failed for good: so did the try; the events that follow. Nothing if the run has none."""
    claim = claim_of(tx, task_id)
    return [] if claim is None or claim.run_id != run_id else end_failed(tx, harness, claim, Failure(reason))


def _again(tx: Tx, harness: Harness, claim: Claim) -> list[dict[str, Any]]:
    return [*start_again(tx, harness, claim.goal_id), *dispatch(tx, harness)]


def _end(tx: Tx, claim: Claim, harness: Harness) -> bool:
    """Close the try and the turn of its run; False if it was closed before."""
    now = harness.clock.now()
    if claim.run_id is not None and (turn := turns.find(tx, claim.run_id)) is not None and turn.state == "live":
        turns.end(tx, claim.run_id, "finished", now)
        turns.settle(tx, claim.run_id, now)
    return goals.end(tx, claim, now)


def _observe(tx: Tx, harness: Harness, claim: Claim, kind: Kind, what: str, summary: str, data: dict[str, Any]) -> None:
    key = f"{claim.step}#{claim.number}:{what}"
    now, said = harness.clock.now(), summary[:MAX_REASON_CHARS]
    tracking.record(tx, Observation(claim.goal_id, kind, key, now, PIPELINE, claim.step, said, data))


def _with_failure(stands: Standing, claim: Claim, failure: Failure) -> list[Try]:
    outcome = Outcome.HOPELESS if failure.hopeless else Outcome.FAILED
    this = (claim.step, claim.number)
    return [replace(one, outcome=outcome) if (one.step, one.number) == this else one for one in stands.tries]
