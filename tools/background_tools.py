"""The tools for commands in the background: bash_output, bash_kill."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from tools.background import end, until
from tools.background_look import look, state
from tools.background_records import Background, find, is_running, records
from tools.background_watch import given_up, sightings
from tools.hiding import hiding

MAX_WAIT_S = 100.0
COMMAND_CHARACTERS = 120

Name = Annotated[str, Field(description="Its name, such as b1")]


def _list(workspace: Path) -> str:
    known = records(workspace)
    return "\n".join(_line(workspace, record) for record in known) or "There are no background commands."


def _line(workspace: Path, record: Background) -> str:
    command = clean(" ".join(record.command.split()))
    short = command if len(command) <= COMMAND_CHARACTERS else command[:COMMAND_CHARACTERS] + " [...]"
    return f"{record.id} [{state(workspace, record)[0]}] {short}"


def background_tools(secrets: Sequence[str] = ()) -> tuple[Tool, Tool]:
    """bash_output and bash_kill; `secrets` are values that are replaced in what they show."""
    hide = hiding(secrets)

    @tool(Effect.READ)
    async def bash_output(
        context: ToolContext,
        id: Annotated[str, Field(description="Its name, such as b1; leave out to list all of them")] = "",
        lines: Annotated[int, Field(ge=1, le=1000, description="How many of the last lines to show")] = 50,
        wait_s: Annotated[
            float, Field(ge=0, le=MAX_WAIT_S, description="Seconds to wait for its end before looking")
        ] = 0.0,
    ) -> ToolResult:
        """Look at a command started with bash background=true: the end of its output, running or exit code.

        To await its end set wait_s instead of asking again and again.
        """
        if not id:
            return ToolResult(hide(await asyncio.to_thread(_list, context.workspace)))
        record = await asyncio.to_thread(find, context.workspace, id)
        await until(lambda: _has_ended(context, record), wait_s)
        record = await asyncio.to_thread(find, context.workspace, id)
        shown = await asyncio.to_thread(look, context.workspace, record, lines)
        observed = await asyncio.to_thread(sightings, context.workspace, record, hide)
        return ToolResult(hide(shown.text), observed=observed)

    @tool(Effect.UNSAFE)
    async def bash_kill(context: ToolContext, id: Name) -> ToolResult:
        """End a command started with bash background=true, with all processes that it started."""
        record = await asyncio.to_thread(find, context.workspace, id)
        ended = await end(context.workspace, [record], "ended by bash_kill")
        record = await asyncio.to_thread(find, context.workspace, id)
        seen = await asyncio.to_thread(look, context.workspace, record, 20)
        observed = given_up(record) if ended else await asyncio.to_thread(sightings, context.workspace, record, hide)
        return ToolResult(hide(seen.text if ended else f"{id} ran no more.\n{seen.text}"), observed=observed)

    return bash_output, bash_kill


def _has_ended(context: ToolContext, record: Background) -> bool:
    context.progress()
    return not is_running(context.workspace, record)
