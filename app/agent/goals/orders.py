"""What people order of goals: show, cancel, try again; and what the heartbeat keeps going."""

from typing import Any

from app.agent.announce import announce
from app.agent.delegation.task_list import cancelled_event, stop_session
from app.agent.goals.dispatch import dispatch, lost_tries, session_key, standing_of, start_again, start_event
from app.agent.goals.end import Failure, end_failed
from app.agent.goals.text import view
from app.agent.harness import Harness
from app.db import Tx
from app.errors import BadInput, NotFound
from app.ids import new_id
from app.sentences import Sentence
from app.work import goals, ledger, tracking
from app.work.goals import Goal
from app.work.life import Life, Priority
from app.work.observation import Branch, Kind, Observation
from app.work.pipeline import ASKING

OWNER = "owner"
NOBODY = Sentence("nobody is at it any more: its time has passed, or its run was lost")


def found(tx: Tx, goal_id: str) -> Goal:
    """The goal of this id. Raises NotFound."""
    goal = goals.find(tx, goal_id)
    if goal is None:
        raise NotFound(f"There is no goal {goal_id}.")
    return goal


def show_goal(tx: Tx, goal_id: str) -> dict[str, Any]:
    """One goal as JSON. Raises NotFound."""
    return _shown(tx, found(tx, goal_id))


def list_goals(tx: Tx, limit: int, only_open: bool = False) -> list[dict[str, Any]]:
    """The newest goals as JSON, newest first."""
    return [_shown(tx, goal) for goal in goals.recent(tx, limit, only_open=only_open)]


def _shown(tx: Tx, goal: Goal) -> dict[str, Any]:
    tries = [one for one in goals.claims_of(tx, goal.id) if one.number > 1]
    waiting = [one.due_at for one in tries if one.run_id is None and one.ended_at is None]
    return view(standing_of(tx, goal)) | {"nextTryAt": min(waiting).isoformat() if waiting else None}


async def cancel_goal(harness: Harness, goal_id: str) -> str:
    """End an open goal for good; a sentence that says so. Raises NotFound."""
    events = await harness.db.write(_cancel, harness, goal_id)
    await announce(harness, events)
    return f"{goal_id} is cancelled."


def _cancel(tx: Tx, harness: Harness, goal_id: str) -> list[dict[str, Any]]:
    goal, now = found(tx, goal_id), harness.clock.now()
    stands = standing_of(tx, goal)
    if stands.derived.is_terminal:
        raise NotFound(f"{goal_id} has ended already ({stands.life}).")
    events = halt(tx, harness, goal_id)
    data, told = {"branch": Branch.GIVEN_UP}, "a person cancelled it"
    key = f"cancelled#{_count(tx, goal_id, Kind.OWNER_REPLY_RECORDED) + 1}"
    tracking.record(tx, Observation(goal_id, Kind.OWNER_REPLY_RECORDED, key, now, OWNER, None, told, data))
    return events + dispatch(tx, harness)


def halt(tx: Tx, harness: Harness, goal_id: str) -> list[dict[str, Any]]:
    """Take the open tries of a goal, if this is one, away from their runs; the events that end these."""
    events: list[dict[str, Any]] = []
    for claim in goals.claims_of(tx, goal_id):
        if goals.end(tx, claim, harness.clock.now()):
            stop_session(tx, harness, session_key(claim))
            events.append(cancelled_event(harness, claim.id, f"goal:{goal_id}"))
    return events


def _count(tx: Tx, goal_id: str, kind: Kind) -> int:
    return sum(seen.kind is kind and seen.step is None for seen in ledger.of_task(tx, goal_id))


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
    number = _count(tx, goal_id, Kind.OWNER_RESUMED) + 1
    told = "a person had it tried again"
    tracking.record(tx, Observation(goal_id, Kind.OWNER_RESUMED, f"resumed#{number}", now, OWNER, None, told))
    goals.set_rank(tx, goal_id, Priority.PERSON.rank)
    return dispatch(tx, harness)


async def continue_goals(harness: Harness) -> dict[str, Any]:
    """For the heartbeat: start what is ready, and lost tries once more.

    Every change is a compare-and-set on its row, so that two beats do nothing twice. Answers with counts, as JSON.
    """
    lost, events = await harness.db.write(_continue, harness)
    if events:
        await announce(harness, events)
    return {"lost": lost, "events": len(events)}


def _continue(tx: Tx, harness: Harness) -> tuple[int, list[dict[str, Any]]]:
    lost = lost_tries(tx, harness)
    return len(lost), lost + dispatch(tx, harness)


def nudge(tx: Tx, harness: Harness, goal_id: str, step: str) -> list[dict[str, Any]]:
    """What the monitor has a pipeline do that does not get on: fail the tries of `step` ("": of every step) that a run
    has, so that they are tried again or given up as after any failure, and start what should have begun.

    What asks a person or runs commands is not done again by itself: nobody knows how far it came.
    """
    events: list[dict[str, Any]] = []
    for claim in goals.claims_of(tx, goal_id):
        if claim.run_id is None or claim.ended_at is not None or (step and claim.step != step):
            continue
        stop_session(tx, harness, session_key(claim))
        events.append(cancelled_event(harness, claim.id, f"goal:{goal_id}"))
        is_unsafe = found(tx, goal_id).pipeline.step(claim.step).action in ASKING
        events += end_failed(tx, harness, claim, Failure(NOBODY, hopeless=is_unsafe))
    return events + start_again(tx, harness, goal_id) + dispatch(tx, harness)
