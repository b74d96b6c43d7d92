"""A look at what a file tool has just written: a pipeline or the list of watched folders is validated on the spot."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from app.agent.harness import Harness
from app.agent.people.undo import WRITERS
from app.agent.tool import ToolResult
from app.errors import MoabError
from app.work import watching
from app.work.pipeline import FOLDER, parse


async def looked_over(
    harness: Harness, tool: str, arguments: Mapping[str, Any], result: ToolResult | str
) -> ToolResult | str:
    """`result` with what a look at the written file says; a file with faults makes it a failed one, but stays."""
    if tool not in WRITERS or (isinstance(result, ToolResult) and not result.ok):
        return result
    found = await asyncio.to_thread(_look, harness, str(arguments.get("path", "")))
    if found is None:
        return result
    said = result.text if isinstance(result, ToolResult) else result
    text, is_valid = found
    return ToolResult(f"{said}\n{text}", ok=is_valid)


def _look(harness: Harness, path: str) -> tuple[str, bool] | None:
    root = os.path.realpath(harness.workspace.root)
    relative = os.path.relpath(os.path.realpath(os.path.join(root, os.path.expanduser(path))), root)
    parts = PurePosixPath(relative)
    try:
        text = harness.workspace.text_of(relative) or ""
        if relative == watching.FILE:
            pipelines = harness.library.look().pipelines
            found = watching.parse(text, harness.workspace.root, harness.settings.device_folders, pipelines)
            return f"It is valid: {len(found.folders)} folders are watched.", True
        if parts.parent.as_posix() != FOLDER or parts.suffix not in (".yaml", ".yml"):
            return None
        if parts.suffix == ".yml":
            return f"A pipeline's file ends with .yaml; {relative} is none.", False
        steps = parse(parts.stem, text).steps
    except (MoabError, OSError) as error:
        return f"The file is written, but it is not valid yet:\n{error}", False
    return f"It is a valid pipeline: {', '.join(step.id for step in steps)}.", True
