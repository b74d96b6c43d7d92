"""A message becomes a turn: receive, then think and act until the answer lies in the outbox."""

from datetime import datetime
from typing import Any

import inngest
from pydantic import ValidationError

from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.loop import run_turn
from app.agent.receive import receive
from app.agent.replay import resume
from app.agent.restart import start_again
from app.agent.steps import DurableSteps, key_of, parse, unless_crashed
from app.agent.turn import bodies_of
from app.events import MessageReceived, TurnStopped

STOPS = "event.data.sessionKey == async.data.sessionKey && event.ts <= async.data.beforeMs"


def handle_message(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """One run per session at a time: a person's message cancels the run before it, a machine's cancels nobody."""

    @client.create_function(
        fn_id="handle-message",
        trigger=inngest.TriggerEvent(event=MessageReceived.name),
        retries=8,
        singleton=inngest.Singleton(key="event.data.steers == false ? false : event.data.sessionKey", mode="cancel"),
        cancel=[inngest.Cancel(event=TurnStopped.name, if_exp=STOPS)],
    )
    async def run(ctx: inngest.Context) -> dict[str, Any]:
        steps = DurableSteps(ctx)
        try:
            return await turn(ctx, steps)
        except ValidationError:  # a memo of a version that said things differently
            return dict(unless_crashed(await steps.run("start-again", start_again, harness, ctx.run_id)))

    async def turn(ctx: inngest.Context, steps: DurableSteps) -> dict[str, Any]:
        event = parse(MessageReceived, ctx)
        key, event_id = key_of(event, ctx), ctx.event.id
        take: tuple[Any, ...] = (receive, harness, ctx.run_id, event, key, True, event_id)
        received = await steps.run("receive", *take)
        flow = Flow.model_validate(unless_crashed(received))
        if flow.run_id != ctx.run_id:  # the memo of the run that this one does again from a later step
            take = (resume, harness, ctx.run_id, event, key, event_id, dict(received))
            flow = Flow.model_validate(unless_crashed(await steps.run("resume", *take)))
        while flow.stop == "waiting" and flow.wait_until is not None:
            await steps.sleep_until("wait-for-turn", datetime.fromisoformat(flow.wait_until))
            flow = Flow.model_validate(unless_crashed(await steps.run("receive", *take)))
        if flow.stop is not None:
            return {"kind": flow.stop}
        ending = await run_turn(steps, bodies_of(harness, flow), flow)
        return dict(unless_crashed(ending.wire()))

    return run
