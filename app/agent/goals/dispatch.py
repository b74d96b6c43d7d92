"""What may begin begins: ready steps of open goals become tries, and each try a run of its own."""

from datetime import timedelta
from typing import Any

from app.agent.announce import announce
from app.agent.harness import Harness
from app.db import Tx
from app.events import SubagentSpawn
from app.ids import new_id
from app.work import goals, ledger
from app.work.goals import Claim, Goal
from app.work.life import next_number, ready
from app.work.standing import Standing, standing

AT_ONCE = 4
"""How many steps run at the same time, of all goals; those that wait for a person do not count."""

LOST_AFTER = timedelta(seconds=60)
"""A try that should have begun this long ago is started once more."""

MODE = "pipeline"


def standing_of(tx: Tx, goal: Goal) -> Standing:
    return standing(goal, goals.claims_of(tx, goal.id), ledger.of_task(tx, goal.id))


def dispatch(tx: Tx, harness: Harness) -> list[dict[str, Any]]:
    """Write down a try for each ready step as far as there is room, who goes first first; the events that start them.

    A try is there once, so whoever else looks at the same time starts nothing twice.
    """
    now = harness.clock.now()
    room = AT_ONCE - goals.count_running(tx, now)
    events: list[dict[str, Any]] = []
    for goal in goals.open_goals(tx) if room > 0 else ():
        if len(events) >= room:
            break
        stands = standing_of(tx, goal)
        for step in ready(goal.pipeline, stands.tries)[: room - len(events)]:
            claim = Claim(goal.id, step, next_number(stands.tries, step), now)
            if goals.add_claim(tx, claim):
                events.append(start_event(claim))
    return events


def start_event(claim: Claim, again: str = "") -> dict[str, Any]:
    """`agent.subagent.spawn` of a try; a repeated one needs something fresh in its id."""
    spawn = SubagentSpawn(
        task_id=claim.id,
        task=claim.step,
        sub_session_key=session_key(claim),
        parent_session_key=f"goal:{claim.goal_id}",
        mode=MODE,
        due_at=claim.due_at.isoformat() if claim.number > 1 else None,
    )
    return spawn.to_wire(f"{claim.id}:{again}" if again else claim.id)


def session_key(claim: Claim) -> str:
    """The session of a try: what its model was asked and its command did."""
    return f"goal:{claim.goal_id}:{claim.step}:{claim.number}"


def claim_id(session_key: str) -> str | None:
    """What events call the try that a session is of, if it is one's."""
    match session_key.split(":"):
        case ["goal", goal_id, step, number]:
            return f"{goal_id}/{step}/{number}"
    return None


def claim_of(tx: Tx, task_id: str) -> Claim | None:
    """The try that events call `task_id`, if it is one."""
    match task_id.split("/"):
        case [goal_id, step, number] if number.isdecimal():
            return goals.find_claim(tx, goal_id, step, int(number))
    return None


def start_again(tx: Tx, harness: Harness, goal_id: str) -> list[dict[str, Any]]:
    """Fresh starts of a goal's tries that no run has: whoever wrote them down may not have got to start them."""
    unbegun = [claim for claim in goals.claims_of(tx, goal_id) if claim.run_id is None and claim.ended_at is None]
    return [start_event(claim, new_id(harness.clock)) for claim in unbegun]


async def resume_goals(harness: Harness) -> int:
    """At start-up: start what an earlier process wrote down and did not get to start; how many steps."""
    events = await harness.db.write(_resume, harness)
    if events:
        await announce(harness, events)
    return len(events)


def _resume(tx: Tx, harness: Harness) -> list[dict[str, Any]]:
    unbegun = [claim for claim in goals.open_claims(tx, harness.clock.now()) if claim.run_id is None]
    return [*(start_event(claim, new_id(harness.clock)) for claim in unbegun), *dispatch(tx, harness)]


def lost_tries(tx: Tx, harness: Harness) -> list[dict[str, Any]]:
    """Fresh starts of tries that should have begun a minute ago: the signal, or who slept until then, was lost."""
    late = goals.open_claims(tx, harness.clock.now() - LOST_AFTER)
    return [start_event(claim, new_id(harness.clock)) for claim in late if claim.run_id is None]
