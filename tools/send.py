"""The tool that hands a file of the workspace to the user: send_file."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, OutgoingFile, ToolContext, ToolResult, tool
from app.errors import BadInput
from app.events import safe_text
from tools.fence import inside, open_regular, shown
from tools.files import FilePath
from tools.sniff import size

CAPTION_CHARACTERS = 1000
LIMIT_BYTES = 50_000_000
"""What every platform takes; the least is Telegram's (core.telegram.org/bots/api, Sending files)."""


@tool(Effect.UNSAFE)
async def send_file(
    context: ToolContext,
    path: FilePath,
    caption: Annotated[
        str, Field(max_length=CAPTION_CHARACTERS, description="A line of text under the file; may be empty")
    ] = "",
) -> ToolResult:
    """Send a file of the workspace to the user in the chat: a document, a picture or a sound.

    Use it when the user should have the file itself; to tell what is in it, answer with text.
    """
    file, total = await asyncio.to_thread(_looked_at, context.workspace, path)
    outgoing = OutgoingFile(file, clean(os.path.basename(file)).replace("\n", " "), clean(caption).strip())
    return ToolResult(f"{file} ({size(total)}) goes to the user.", files=(outgoing,))


def _looked_at(workspace: Path, path: str) -> tuple[str, int]:
    """Path relative to the workspace and size in bytes of a file that can be sent. Raises a sentence for others."""
    real = inside(workspace, path)
    name = shown(workspace, real)
    with open_regular(real, name) as file:
        total = os.fstat(file.fileno()).st_size
    if safe_text(name) != name:
        raise BadInput(f"{clean(name)}: its name is not readable text; rename it first")
    if not 0 < total <= LIMIT_BYTES:
        raise BadInput(f"{name} has {size(total)}; accepted: 1 byte to {size(LIMIT_BYTES)} (bash can pack or split it)")
    return name, total
