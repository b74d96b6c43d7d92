"""A run failed for good: whoever waits for it is told, once, in plain words."""

from typing import Any

import inngest

from app.agent.conclude import conclude_rest
from app.agent.failure import tell_failure
from app.agent.harness import APP_ID, Harness
from app.agent.steps import DurableSteps


def failure_handler(client: inngest.Inngest, harness: Harness) -> inngest.Function[Any]:
    """Ignores itself; `tell_failure` ignores invoked children and superseded turns, which own no live turn."""

    @client.create_function(
        fn_id="failure-handler",
        trigger=inngest.TriggerEvent(
            event="inngest/function.failed", expression=f"event.data.function_id != '{APP_ID}-failure-handler'"
        ),
        retries=8,
    )
    async def run(ctx: inngest.Context) -> dict[str, Any]:
        steps = DurableSteps(ctx)
        told = await steps.run("tell", tell_failure, harness, dict(ctx.event.data))
        await conclude_rest(steps, harness, told.get("signs"))
        return dict(told)

    return run
