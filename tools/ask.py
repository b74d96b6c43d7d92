"""The tool that asks the user: ask_user, fulfilled by the act phase, whose wait for the answer outlives restarts."""

from typing import Annotated

from pydantic import Field

from app.agent.tool import Effect, ToolContext, tool

Choice = Annotated[str, Field(min_length=1, max_length=100)]


@tool(Effect.READ, durable=True, asks=True)
async def ask_user(
    context: ToolContext,
    question: Annotated[str, Field(min_length=1, max_length=2000, description="One question, as the user reads it")],
    choices: Annotated[
        list[Choice] | None, Field(max_length=10, description="Possible answers; leave out for a free answer")
    ] = None,
) -> str:
    """Ask the user a question and wait for the answer, which may take hours.

    Use it only when you cannot go on without the answer and cannot find it out yourself.
    """
    raise RuntimeError("ask_user asks: the act phase puts the question to the user and never runs it")
