"""The tool that hands a task to a sub-agent: delegate_task, fulfilled by the act phase and not inside a step."""

from typing import Annotated, Literal

from pydantic import Field

from app.agent.tool import Effect, ToolContext, tool


@tool(Effect.UNSAFE, durable=True)
async def delegate_task(
    context: ToolContext,
    task: Annotated[
        str,
        Field(
            min_length=1,
            description="The task in full: the goal, what is already known, where the files are, what to report back",
        ),
    ],
    mode: Annotated[
        Literal["wait", "background", "at"],
        Field(description="wait for the report, work in the background while you go on, or begin at a set time"),
    ] = "wait",
    at: Annotated[
        str | None, Field(description="With mode at: local time such as 2026-12-24T18:00, or from now: +90m, +2h, +3d")
    ] = None,
    handed_over: Annotated[
        Literal["none", "summary", "all"],
        Field(description="How much of this conversation the sub-agent sees"),
    ] = "none",
    model: Annotated[
        str | None, Field(description="Model for the sub-agent, e.g. openai/gpt-5.4; leave out for the usual one")
    ] = None,
) -> str:
    """Hand a task that stands by itself to a sub-agent with the same tools.

    Use it for work with many steps whose details you need not see, for work that may take long (background), and for
    reminders and work at a later time (at). When a task of the last two kinds ends, you are told in a message.
    """
    raise RuntimeError("delegate_task is durable: the act phase starts a sub-agent for it and never runs it in a step")
