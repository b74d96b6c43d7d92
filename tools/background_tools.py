"""The tools for commands in the background: bash_output, bash_kill."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.agent.output import clean, whole_characters
from app.agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from app.errors import MoabError
from tools.background import end, until
from tools.background_records import FOLDER, Background, exit_code, find, is_running, output_path, reap, records
from tools.fence import open_regular
from tools.hiding import hiding
from tools.sniff import size

TAIL_BYTES = 12_000
MAX_WAIT_S = 100.0
COMMAND_CHARACTERS = 120

Name = Annotated[str, Field(description="Its name, such as b1")]


@dataclass(frozen=True)
class Look:
    """What is to be told of a command; `is_well` is false once it has ended otherwise than with exit code 0."""

    text: str
    is_well: bool


def told_code(code: int) -> str:
    """An exit code in words. A shell reports a child killed by a signal as 128 + its number."""
    number = -code if code < 0 else code - 128
    try:
        return f"exit code {code}, killed by {signal.Signals(number).name}"
    except ValueError:
        return f"exit code {code}"


def look(workspace: Path, record: Background, lines: int) -> Look:
    """The last `lines` of a command's output (as many as fit), and whether it runs or how it ended. Blocks."""
    state, is_well = _state(workspace, record)
    tail, total = _tail(output_path(workspace, record.id), record.id, lines)
    where = f"; {size(total)} of output in {FOLDER}/{record.id}.log" if total else ""
    return Look(f"{tail or '(no output)'}\n[{record.id}: {state}{where}]", is_well)


def _state(workspace: Path, record: Background) -> tuple[str, bool]:
    if is_running(workspace, record):
        return f"running since {record.since:%Y-%m-%d %H:%M} UTC", True
    reap(record)
    code = exit_code(workspace, record)
    if code is None:
        return f"{record.note or 'ended, nobody knows how: it was killed, or the machine was restarted'}", False
    return told_code(code) + (f"; {record.note}" if record.note else ""), code == 0


def _tail(path: Path, name: str, lines: int) -> tuple[str, int]:
    try:
        with open_regular(path, name) as file:
            total = os.fstat(file.fileno()).st_size
            file.seek(max(0, total - TAIL_BYTES))
            data = file.read(TAIL_BYTES)
    except MoabError as error:
        return f"(its output cannot be read: {error})", 0
    kept = clean(whole_characters(data)).rstrip("\n").split("\n")
    # The first of them is half a line where the file is longer.
    is_cut = total > TAIL_BYTES and len(kept) > 1
    kept = kept[1:] if is_cut else kept
    shown = kept[-lines:]
    return "\n".join((["[... earlier output left out ...]"] if is_cut or len(shown) < len(kept) else []) + shown), total


def _list(workspace: Path) -> str:
    known = records(workspace)
    return "\n".join(_line(workspace, record) for record in known) or "There are no background commands."


def _line(workspace: Path, record: Background) -> str:
    command = clean(" ".join(record.command.split()))
    short = command if len(command) <= COMMAND_CHARACTERS else command[:COMMAND_CHARACTERS] + " [...]"
    return f"{record.id} [{_state(workspace, record)[0]}] {short}"


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
        return ToolResult(hide((await asyncio.to_thread(look, context.workspace, record, lines)).text))

    @tool(Effect.UNSAFE)
    async def bash_kill(context: ToolContext, id: Name) -> ToolResult:
        """End a command started with bash background=true, with all processes that it started."""
        record = await asyncio.to_thread(find, context.workspace, id)
        ended = await end(context.workspace, [record], "ended by bash_kill")
        seen = await asyncio.to_thread(look, context.workspace, find(context.workspace, id), 20)
        return ToolResult(hide(seen.text if ended else f"{id} ran no more.\n{seen.text}"))

    return bash_output, bash_kill


def _has_ended(context: ToolContext, record: Background) -> bool:
    context.progress()
    return not is_running(context.workspace, record)
