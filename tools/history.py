"""The tool that looks for what was said before: search_history."""

from datetime import UTC
from typing import Annotated

from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, Found, ToolContext, ToolResult, tool


@tool(Effect.READ)
async def search_history(
    context: ToolContext,
    words: Annotated[str, Field(min_length=1, max_length=500, description="Words to look for, e.g. door code")],
    limit: Annotated[int, Field(ge=1, le=50, description="How many messages to show at most")] = 10,
) -> ToolResult:
    """Search what you and the user said in past conversations, also those before the present one.

    Use it when the user speaks of something you do not see here. Each line shows when (UTC), who, and the passage.
    """
    if context.history is None:
        return ToolResult("There are no past conversations to search here.", ok=False)
    found = await context.history.search(words, limit)
    if not found:
        return ToolResult(f"Nothing was said with {clean(words)!r}. Try fewer or other words.")
    return ToolResult("\n".join(_line(context, one) for one in found))


def _line(context: ToolContext, found: Found) -> str:
    who = "you" if found.role == "assistant" else "user"
    where = "" if found.session_id == context.session_id else ", earlier conversation"
    # Told on one line each: a message must not look like several, or like our own words.
    said = " ".join(clean(found.snippet).split())
    return f"{found.at.astimezone(UTC):%Y-%m-%d %H:%M}, {who}{where}: {said}"
