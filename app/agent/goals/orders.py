"""What people order of goals: show, cancel, try again; and what the heartbeat keeps going."""

from datetime import datetime, timedelta
from typing import Any

from app.agent.announce import announce
from app.agent.delegation.task_list import cancelled_event, stop_session
from app.agent.goals.dispatch import dispatch, lost_tries, session_key, standing_of, start_event
from app.agent.goals.end import Failure, end_failed
from app.agent.goals.text import view
from app.agent.harness import Harness
from app.db import Tx
from app.errors import BadInput, NotFound
from app.ids import new_id
from app.work import goals, ledger
from app.work.goals import Claim, Goal
from app.work.life import Life, Priority
from app.work.observation import Branch, Kind, Observation
from app.work.pipeline import Action

MARGIN = timedelta(minutes=10)
"""How much longer than its time limit a try may take before nobody is believed to be at it."""

ASKING = (Action.EXEC, Action.AGENT)
OWNER = "owner"


def found(tx: Tx, goal_id: str) -> Goal:
    """The goal of this id. Raises NotFound."""
    goal = goals.find(tx, goal_id)
    if goal is None:
        raise NotFound(f"There is no goal {goal_id}.")
    return goal


def show_goal(tx: Tx, goal_id: str) -> dict[str, Any]:
    """One goal as JSON. Raises NotFound."""
    return view(standing_of(tx, found(tx, goal_id)))


def list_goals(tx: Tx, limit: int, only_open: bool = False) -> list[dict[str, Any]]:
    """The newest goals as JSON, newest first."""
    return [view(standing_of(tx, goal)) for goal in goals.recent(tx, limit, only_open=only_open)]


async def cancel_goal(harness: Harness, goal_id: str) -> str:
    """End an open goal for good; a sentence that says so. Raises NotFound."""
    events = await harness.db.write(_cancel, harness, goal_id)
    await announce(harness, events)
    return f"{goal_id} is cancelled."


def _cancel(tx: Tx, harness: Harness, goal_id: str) -> list[dict[str, Any]]:
    goal, now = found(tx, goal_id), harness.clock.now()
    if not goals.close(tx, goal_id, now):
        raise NotFound(f"{goal_id} has ended already ({standing_of(tx, goal).life}).")
    data, told = {"branch": Branch.GIVEN_UP}, "a person cancelled it"
    ledger.append(tx, Observation(goal_id, Kind.OWNER_REPLY_RECORDED, "cancelled", now, OWNER, None, told, data))
    events: list[dict[str, Any]] = []
    for claim in goals.claims_of(tx, goal_id):
        if goals.end(tx, claim, now):
            stop_session(tx, harness, session_key(claim))
            events.append(cancelled_event(harness, claim.id, f"goal:{goal_id}"))
    return events + dispatch(tx, harness)


async def retry_goal(harness: Harness, goal_id: str) -> str:
    """Have what failed tried again at once; a sentence that says so. Raises NotFound, or BadInput if nothing failed."""
    events = await harness.db.write(_retry, harness, goal_id)
    await announce(harness, events)
    return f"{goal_id} is tried again."


def _retry(tx: Tx, harness: Harness, goal_id: str) -> list[dict[str, Any]]:
    goal, now = found(tx, goal_id), harness.clock.now()
    stands = standing_of(tx, goal)
    if stands.life is Life.FAILED:
        return [start_event(claim, new_id(harness.clock)) for claim in goals.make_due(tx, goal_id, now)]
    if stands.life is not Life.FAILED_PERMANENT:
        raise BadInput(f"{goal_id} is {stands.life}; only what failed is tried again.")
    if not stands.tries:
        raise BadInput(f"{goal_id} never began: {stands.reason}. Put a whole file in its place.")
    number = sum(seen.kind is Kind.OWNER_RESUMED and seen.step is None for seen in ledger.of_task(tx, goal_id)) + 1
    told = "a person had it tried again"
    ledger.append(tx, Observation(goal_id, Kind.OWNER_RESUMED, f"resumed#{number}", now, OWNER, None, told))
    goals.reopen(tx, goal_id, Priority.PERSON.rank)
    return dispatch(tx, harness)


async def continue_goals(harness: Harness) -> dict[str, Any]:
    """For the heartbeat: start what is ready, start lost tries once more, fail those that nobody is at any more.

    Every change is a compare-and-set on its row, so that two beats do nothing twice. Answers with counts, as JSON.
    """
    if not await harness.db.read(goals.is_any_open):
        return {"vanished": 0, "lost": 0, "events": 0}
    vanished, lost, events = await harness.db.write(_continue, harness)
    if events:
        await announce(harness, events)
    return {"vanished": vanished, "lost": lost, "events": len(events)}


def _continue(tx: Tx, harness: Harness) -> tuple[int, int, list[dict[str, Any]]]:
    now = harness.clock.now()
    vanished = [claim for claim in goals.open_claims(tx, now - MARGIN) if _is_overdue(tx, harness, claim, now)]
    events = [event for claim in vanished for event in _end_vanished(tx, harness, claim)]
    lost = lost_tries(tx, harness)
    return len(vanished), len(lost), events + lost + dispatch(tx, harness)


def _is_overdue(tx: Tx, harness: Harness, claim: Claim, now: datetime) -> bool:
    goal = goals.find(tx, claim.goal_id)
    if goal is None or claim.begun_at is None:
        return False
    step = goal.pipeline.step(claim.step)
    asking = harness.settings.approval_lifetime if step.action in ASKING else timedelta()
    return claim.begun_at + timedelta(seconds=step.timeout) + asking + MARGIN < now


def _end_vanished(tx: Tx, harness: Harness, claim: Claim) -> list[dict[str, Any]]:
    """What asks a person or runs commands is not done again by itself: nobody knows how far it came."""
    stop_session(tx, harness, session_key(claim))
    cancelled = cancelled_event(harness, claim.id, f"goal:{claim.goal_id}")
    is_unsafe = found(tx, claim.goal_id).pipeline.step(claim.step).action in ASKING
    failure = Failure("nobody is at it any more: its time has passed, or its run was lost", hopeless=is_unsafe)
    return [cancelled, *end_failed(tx, harness, claim, failure)]
