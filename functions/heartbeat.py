"""The motor: on a beat, and after every turn, look what is left to do; decide and emit, no long work."""

from typing import Any

import inngest

from app.agent.folders import keep_working
from app.agent.harness import Harness
from app.agent.housekeeping import CHORES, look_around, settle
from app.agent.steps import DurableSteps, unless_crashed
from app.agent.sweep import sweep
from app.events import TurnEnded, WakeDue, WorkStepDone


def heartbeat(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """Cron beats skip one another; runs started by an event never do, or what they announce would be lost."""

    @client.create_function(
        fn_id="heartbeat",
        trigger=[
            inngest.TriggerCron(cron=f"TZ={harness.settings.timezone} {harness.settings.beat_cron}"),
            inngest.TriggerEvent(event=WakeDue.name),
            inngest.TriggerEvent(event=TurnEnded.name),
            inngest.TriggerEvent(event=WorkStepDone.name),
        ],
        retries=8,
        singleton=inngest.Singleton(key="event.name == 'inngest/scheduled.timer' ? 'beat' : false", mode="skip"),
    )
    async def run(ctx: inngest.Context) -> dict[str, Any]:
        steps = DurableSteps(ctx)
        turn_id, session_key = ctx.event.data.get("turnId"), ctx.event.data.get("sessionKey", "")
        done: dict[str, Any] = {}
        if turn_id is None:
            done["sweep"] = await steps.run("sweep", sweep, harness)
            done["work"] = await steps.run("work", keep_working, harness)
        found = unless_crashed(await steps.run("look", look_around, harness, turn_id, session_key))
        chores = [chore for chore in found.get("chores", ()) if chore["step"] in CHORES]
        done["chores"] = [
            await steps.run(chore["step"], CHORES[chore["step"]], harness, ctx.run_id, chore["of"]) for chore in chores
        ]
        if turn_id is not None and chores:
            await steps.run("settle", settle, harness, turn_id, session_key)
        return done

    return run
