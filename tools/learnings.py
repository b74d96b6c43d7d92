"""The tool that keeps what was learned: record_learning."""

from typing import Annotated

from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, ToolContext, ToolResult, tool
from app.errors import BadInput


@tool(Effect.IDEMPOTENT)
async def record_learning(
    context: ToolContext,
    text: Annotated[
        str, Field(min_length=1, max_length=500, description="One lesson in one sentence, clear by itself")
    ],
    scope: Annotated[
        str, Field(pattern=r"^[\w.-]{1,40}$", description="What it is about: a project, a tool, a person; one word")
    ] = "general",
) -> ToolResult:
    """Keep a lesson about how to work here: what failed and why, what the user prefers, how something is done.

    What is found again and again becomes part of the long-term memory. For plain facts of the day use remember.
    """
    if context.learnings is None:
        return ToolResult("Nothing can be kept here.", ok=False)
    lesson = " ".join(clean(text).split())
    if not lesson:
        raise BadInput("text is empty; accepted: a sentence")
    key = f"{context.run_id}/{context.step_key}"
    return ToolResult(await context.learnings.record(lesson, scope.lower(), key))
