"""A delegated task: its own session, the same tools without delegation, and the answer back to who asked."""

from datetime import datetime
from typing import Any

import inngest
from pydantic import ValidationError

from app.agent.delegation.report import report
from app.agent.delegation.tasks import receive_task
from app.agent.flow import Flow
from app.agent.goals.dispatch import MODE
from app.agent.goals.run import run_try
from app.agent.harness import Harness
from app.agent.loop import run_turn
from app.agent.steps import DurableSteps, parse, unless_crashed
from app.agent.turn import bodies_of
from app.events import SubagentSpawn, TaskCancelled


def sub_agent(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """Invoked by a turn, or started by an event; ended by its own event of cancellation, never with its parent."""

    @client.create_function(
        fn_id="sub-agent",
        trigger=inngest.TriggerEvent(event=SubagentSpawn.name),
        retries=8,
        cancel=[inngest.Cancel(event=TaskCancelled.name, if_exp="event.data.taskId == async.data.taskId")],
    )
    async def run(ctx: inngest.Context) -> dict[str, Any]:
        spawn = parse(SubagentSpawn, ctx)
        try:
            return await work(ctx, spawn, DurableSteps(ctx))
        except ValidationError:  # a memo of a version that said things differently; the records can be read
            return await work(ctx, spawn, DurableSteps(ctx, again=True))

    async def work(ctx: inngest.Context, spawn: SubagentSpawn, steps: DurableSteps) -> dict[str, Any]:
        if spawn.due_at is not None:
            await steps.sleep_until("until-due", datetime.fromisoformat(spawn.due_at))
        if spawn.mode == MODE:
            return dict(await run_try(steps, harness, ctx.run_id, spawn))
        received = await steps.run("receive", receive_task, harness, ctx.run_id, spawn)
        flow = Flow.model_validate(unless_crashed(received))
        if flow.stop is not None and spawn.mode != "wait":
            return {"kind": flow.stop}
        if flow.stop is not None:
            return dict(await steps.run("report", report, harness, spawn, "", False))
        flow = flow.model_copy(update={"model": spawn.model or flow.model})
        ending = await run_turn(steps, bodies_of(harness, flow), flow)
        if spawn.mode != "wait" and ending.kind in ("superseded", "stopped"):
            return {"kind": ending.kind}
        return dict(await steps.run("report", report, harness, spawn, ending.text, ending.kind == "answered"))

    return run
