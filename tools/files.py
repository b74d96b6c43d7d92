"""Tools for files of the workspace: write, ls."""

import asyncio
from typing import Annotated

from pydantic import Field

from app.agent.tool import Effect, ToolContext, tool
from tools.fence import folder, inside, shown
from tools.listing import listing
from tools.sniff import size
from tools.textfile import save

FilePath = Annotated[str, Field(description="Path of the file, relative to the workspace, e.g. notes/plan.md")]


@tool(Effect.IDEMPOTENT)
async def write(
    context: ToolContext,
    path: FilePath,
    content: Annotated[str, Field(description="The whole new content of the file")],
) -> str:
    """Write a whole text file in the workspace; folders are made as needed and an existing file is replaced.

    To change a part of a file, use edit.
    """

    def body() -> str:
        real = inside(context.workspace, path)
        name = shown(context.workspace, real)
        is_new = save(real, name, content)
        lines = len(content.splitlines())
        amount = f"{lines} line{'' if lines == 1 else 's'}, {size(len(content.encode()))}"
        return f"{'Created' if is_new else 'Replaced'} {name} ({amount})."

    return await asyncio.to_thread(body)


@tool(Effect.READ)
async def ls(
    context: ToolContext,
    path: Annotated[str, Field(description="Folder to list, relative to the workspace")] = ".",
    limit: Annotated[int, Field(ge=1, le=1000, description="How many entries to show at most")] = 200,
) -> str:
    """List a folder of the workspace, sorted by name: folders end with a slash, files show their size.

    Hidden entries are shown too.
    """

    def body() -> str:
        real = folder(context.workspace, path)
        return listing(context.workspace, real, shown(context.workspace, real), limit)

    return await asyncio.to_thread(body)
