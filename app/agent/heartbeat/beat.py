"""One beat: a cheap look at what is to be done, then a step for each thing found. Composes steps; decides nothing."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from app.agent.conclude import conclude_rest
from app.agent.delegation.commands import observe_commands
from app.agent.delegation.supervise import run_monitor
from app.agent.goals.folders import scan_folders
from app.agent.goals.orders import continue_goals
from app.agent.harness import Harness
from app.agent.heartbeat.checklist import look_at_checklist
from app.agent.heartbeat.housekeeping import distil, prune_log, settle, tidy
from app.agent.heartbeat.learned import promote_ripe
from app.agent.heartbeat.look import BLIND, look_around
from app.agent.heartbeat.sweep import sweep
from app.agent.loop import Steps

Chore = Callable[[Harness, str, str], Awaitable[Mapping[str, Any]]]


def _alone(body: Callable[[Harness], Awaitable[Mapping[str, Any]]]) -> Chore:
    """The chore of a body that needs neither the run's id nor to know what it is of."""

    async def chore(harness: Harness, _run_id: str, _of: str) -> Mapping[str, Any]:
        return await body(harness)

    return chore


CHORES: dict[str, Chore] = {
    "sweep": _alone(sweep),
    "files": _alone(scan_folders),
    "goals": _alone(continue_goals),
    "commands": _alone(observe_commands),
    "monitor": _alone(run_monitor),
    "prune": prune_log,
    "distil": distil,
    "tidy": tidy,
    "checklist": look_at_checklist,
    "promote": promote_ripe,
}
"""What each chore's step does, given the run's id and what it is of."""


async def run_beat(
    steps: Steps, harness: Harness, run_id: str, turn_id: str | None = None, session_key: str = ""
) -> dict[str, Any]:
    """A whole beat, or with `turn_id` what follows that turn. A beat with nothing to do is one step.

    `{"chores": […]}`: what each of them came to. What could not be looked at is told at the end, as a crash, and holds
    up nothing else.
    """
    found = await steps.run("look", look_around, harness, turn_id, session_key)
    wanted = found.get("chores", [{"step": name, "of": ""} for name in BLIND] if turn_id is None else [])
    chores = [chore for chore in wanted if chore["step"] in CHORES]
    done = [await steps.run(chore["step"], CHORES[chore["step"]], harness, run_id, chore["of"]) for chore in chores]
    if turn_id is not None and chores:
        await steps.run("settle", settle, harness, turn_id, session_key)
    await conclude_rest(steps, harness, found.get("signs"))
    faults = found.get("faults") or ([found["message"]] if found.get("kind") == "crashed" else [])
    return {"chores": done} | ({"kind": "crashed", "message": "; ".join(faults)} if faults else {})
