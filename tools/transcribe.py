"""The tool that puts a recording of the workspace into words: transcribe."""

import asyncio
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.agent.tool import Effect, ToolContext, ToolResult, tool
from tools.fence import inside, open_regular, shown
from tools.files import FilePath

LONGEST_S = 3600.0 * 2
UNSURE = 0.5


@tool(Effect.READ, timeout_s=LONGEST_S)
async def transcribe(
    context: ToolContext,
    path: FilePath,
    language: Annotated[
        str, Field(pattern=r"^([a-z]{2,3})?$", description="Code of the spoken language such as en, if you know it")
    ] = "",
) -> ToolResult:
    """Put the speech in an audio or video file of the workspace into words (OGG, MP3, M4A, WAV, MP4 and others).

    An hour takes minutes. Voice messages of the user come with their words: do not transcribe them again.
    """
    if context.speech is None:
        return ToolResult("There is nothing here that could listen.", ok=False)
    real = await asyncio.to_thread(_looked_at, context.workspace, path)

    async def progress(_done_s: float, _of_s: float | None) -> None:
        context.progress()

    heard = await context.speech.transcribe(real, language=language, progress=progress)
    about = f"{shown(context.workspace, real)}: {heard.seconds:.0f} s"
    if not heard.text:
        return ToolResult(f"{about}; nobody is heard speaking in it.")
    doubt = "; hard to understand, some words are likely to be wrong" if heard.confidence < UNSURE else ""
    return ToolResult(f"{about}, language {heard.language or 'unknown'}{doubt}. What is said in it:\n\n{heard.text}")


def _looked_at(workspace: Path, path: str) -> Path:
    real = inside(workspace, path)
    open_regular(real, shown(workspace, real)).close()
    return real
