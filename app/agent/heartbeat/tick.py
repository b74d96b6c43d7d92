"""A beat of the clock: a run without steps that only sees whether there is anything to do; mostly there is not."""

from typing import Any

from app.agent.harness import Harness
from app.agent.heartbeat.look import is_quiet
from app.events import BeatDue


async def tick(harness: Harness, run_id: str) -> dict[str, Any]:
    """`{"quiet": True}`, or False where a whole beat was asked for, under an id of this run's.

    A run without steps is never replayed; where it fails, or its process dies, it is done again as a whole, and comes
    to the same. So a quiet beat is one call of the function, and on Inngest one execution instead of two (ADR 0006).
    Raises what the sender raises.
    """
    if await is_quiet(harness):
        return {"quiet": True}
    await harness.sender.send([BeatDue().to_wire(f"beat:{run_id}")])
    return {"quiet": False}
