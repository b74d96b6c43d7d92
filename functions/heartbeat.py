"""The motor: on a beat, and after every turn, look what is left to do; decide and emit, no long work."""

from typing import Any

import inngest

from app.agent.harness import Harness
from app.agent.housekeeping import distil_log, look_around, prune_logs, settle
from app.agent.steps import DurableSteps, unless_crashed
from app.agent.sweep import sweep
from app.events import TurnEnded, WakeDue, WorkStepDone


def heartbeat(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """Cron beats skip one another; runs started by an event never do, or what they announce would be lost."""

    @client.create_function(
        fn_id="heartbeat",
        trigger=[
            inngest.TriggerCron(cron=f"TZ={harness.settings.timezone} {harness.settings.heartbeat_cron}"),
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
        if turn_id is None:
            await steps.run("sweep", sweep, harness)
        found = unless_crashed(await steps.run("look", look_around, harness, turn_id, session_key))
        for name in found["distil"]:
            await steps.run("distil", distil_log, harness, name)
        if found["prune"]:
            await steps.run("prune", prune_logs, harness, found["prune"])
        if turn_id is not None and (found["distil"] or found["prune"]):
            await steps.run("settle", settle, harness, turn_id, session_key)
        return dict(found)

    return run
