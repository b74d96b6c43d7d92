"""What the pages of one run show: its trace from the engine and its records from the app database, put together."""

from typing import Any

from app.agent.harness import APP_ID, Harness
from app.web.desk import Desk
from app.web.records import turn_notes
from app.web.timeline import notes_id, timeline


async def run_view(harness: Harness, desk: Desk, run_id: str) -> dict[str, Any]:
    """What the templates want: run, items, failures, notes, app, and `recorded_by`, the run that the notes are of.

    Raises NotFound.
    """
    trace = await desk.run(run_id)
    run, steps = trace["run"], trace["steps"]
    recorded_by = notes_id(steps, run_id)
    notes = await harness.db.read(turn_notes, recorded_by)
    items = timeline(run, steps, notes, harness.clock.now())
    return {
        "run": run,
        "items": items,
        "failures": trace["failures"],
        "notes": notes,
        "recorded_by": recorded_by,
        "app": APP_ID,
    }
