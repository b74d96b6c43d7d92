"""The motor: on a beat, and after every turn, look what is left to do; decide and emit, no long work."""

from typing import Any

import inngest

from app.agent.harness import Harness
from app.agent.heartbeat.beat import run_beat
from app.agent.heartbeat.tick import tick
from app.agent.steps import DurableSteps, unless_crashed
from app.events import CLOCK, BeatDue, TurnEnded, WakeDue, WorkStepDone

ALONE = f"event.name == '{CLOCK}' || event.name == '{BeatDue.name}' ? event.name : false"
"""Beats of the clock, and what they find to do, skip one another; what an event announces never is skipped."""


def heartbeat(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """A beat of the clock only sees whether there is anything to do; one with steps follows, as after events."""

    @client.create_function(
        fn_id="heartbeat",
        trigger=[
            inngest.TriggerCron(cron=f"TZ={harness.settings.timezone} {harness.settings.beat_cron}"),
            inngest.TriggerEvent(event=BeatDue.name),
            inngest.TriggerEvent(event=WakeDue.name),
            inngest.TriggerEvent(event=TurnEnded.name),
            inngest.TriggerEvent(event=WorkStepDone.name),
        ],
        retries=8,
        singleton=inngest.Singleton(key=ALONE, mode="skip"),
    )
    async def run(ctx: inngest.Context) -> dict[str, Any]:
        if ctx.event.name == CLOCK:
            return await tick(harness, ctx.run_id)
        turn_id, session_key = (ctx.event.data.get(name) for name in ("turnId", "sessionKey"))
        about = (str(turn_id) if turn_id is not None else None, str(session_key or ""))
        done = await run_beat(DurableSteps(ctx), harness, ctx.run_id, *about)
        return dict(unless_crashed(done))

    return run
