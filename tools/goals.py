"""Tools for work that goes through pipelines by itself: create_goal, goal_status."""

from typing import Annotated

from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, ToolContext, ToolResult, tool

NONE = "There are no goals."
NOWHERE = ToolResult("There are no goals here.", ok=False)


@tool(Effect.IDEMPOTENT)
async def create_goal(
    context: ToolContext,
    pipeline: Annotated[str, Field(min_length=1, description="Name of a pipeline: a file in pipelines/ without .yaml")],
    source: Annotated[
        str, Field(description="The file that it begins with, relative to the workspace; leave out if it needs none")
    ] = "",
    title: Annotated[str, Field(max_length=200, description="What to call it; leave out for the file's name")] = "",
) -> ToolResult:
    """Make a goal that goes through a pipeline by itself, step by step, also while nobody talks to you.

    The user is told when it is done or cannot be done. The same content is worked on once; what failed is tried again.
    """
    if context.goals is None:
        return NOWHERE
    return ToolResult(await context.goals.make(context.step_key, pipeline, source, clean(title)))


@tool(Effect.READ)
async def goal_status(
    context: ToolContext,
    goal_id: Annotated[str, Field(description="Its id, to see its steps and what they made; none lists all")] = "",
) -> ToolResult:
    """Look how goals stand: the newest ones, or one with its steps."""
    if context.goals is None:
        return NOWHERE
    if goal_id:
        return ToolResult(await context.goals.shown(goal_id))
    return ToolResult("\n".join(await context.goals.listed()) or NONE)
