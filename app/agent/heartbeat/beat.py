"""One beat: what is lost or due, goals and tasks, then chores. Composes steps; decides nothing itself."""

from typing import Any

from app.agent.goals.folders import keep_working
from app.agent.harness import Harness
from app.agent.heartbeat.housekeeping import CHORES, look_around, settle
from app.agent.heartbeat.sweep import sweep
from app.agent.loop import Steps


async def run_beat(
    steps: Steps, harness: Harness, run_id: str, turn_id: str | None = None, session_key: str = ""
) -> dict[str, Any]:
    """A whole beat, or with `turn_id` what follows that turn. A beat with nothing to do is three steps.

    `{"sweep": …, "work": …, "chores": […]}`: what each of them came to.
    """
    done: dict[str, Any] = {}
    if turn_id is None:
        done["sweep"] = await steps.run("sweep", sweep, harness)
        done["work"] = await steps.run("work", keep_working, harness)
    found = await steps.run("look", look_around, harness, turn_id, session_key)
    chores = [chore for chore in found.get("chores", ()) if chore["step"] in CHORES]
    done["chores"] = [
        await steps.run(chore["step"], CHORES[chore["step"]], harness, run_id, chore["of"]) for chore in chores
    ]
    if turn_id is not None and chores:
        await steps.run("settle", settle, harness, turn_id, session_key)
    return done | ({"kind": "crashed", "message": found["message"]} if found.get("kind") == "crashed" else {})
