"""The tool that writes to the daily log: remember."""

from typing import Annotated

from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, ToolContext, tool
from app.errors import BadInput


@tool(Effect.IDEMPOTENT)
async def remember(
    context: ToolContext,
    text: Annotated[
        str, Field(max_length=4000, description="What to remember: one fact, decision or wish, clear by itself")
    ],
) -> str:
    """Write something worth knowing in later conversations to today's log.

    Use it for facts, decisions and wishes that outlast this conversation; say who and what rather than "he" or "it".
    """
    note = clean(text).strip()
    if not note:
        raise BadInput("text is empty; accepted: a sentence to remember")
    # The key makes the second attempt of a step find the first one's line instead of adding another.
    return await context.notes.remember(note, key=f"{context.run_id}/{context.step_key}")
