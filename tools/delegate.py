"""The tool that hands a task to a sub-agent: delegate_task, fulfilled by the act phase and not inside a step."""

from typing import Annotated

from pydantic import Field

from app.agent.tool import Effect, ToolContext, tool


@tool(Effect.UNSAFE, durable=True)
async def delegate_task(
    context: ToolContext,
    task: Annotated[
        str,
        Field(
            min_length=1,
            description="The task in full: the goal, what is already known, where the files are, what to report back. "
            "The sub-agent sees nothing of this conversation.",
        ),
    ],
    model: Annotated[
        str | None, Field(description="Model for the sub-agent, e.g. openai/gpt-5.4; leave out for the usual one")
    ] = None,
) -> str:
    """Hand a task that stands by itself to a sub-agent with the same tools and wait for its report.

    Use it for work with many steps whose details you need not see.
    """
    raise RuntimeError("delegate_task is durable: the act phase starts a sub-agent for it and never runs it in a step")
