"""The tool that reads files of the workspace, whatever is in them: read."""

import asyncio
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, BinaryIO

from pydantic import Field

from app.agent.tool import Effect, ToolContext, ToolResult, tool
from tools.fence import explained, inside, open_regular, shown
from tools.files import FilePath
from tools.notebook import notebook
from tools.page import PAGE_BYTES, Window, page, page_of_file
from tools.pdf import pdf_pages
from tools.picture import pixels
from tools.sniff import is_pdf, size
from tools.textfile import EDIT_LIMIT_BYTES, encoding_of

PICTURE_BYTES = 20_000_000
PICTURE_PIXELS = 200_000_000
"""Larger ones are not looked at."""


@tool(Effect.READ)
async def read(
    context: ToolContext,
    path: FilePath,
    offset: Annotated[int, Field(ge=1, description="Number of the first line to show, from 1")] = 1,
    limit: Annotated[int, Field(ge=1, le=2000, description="How many lines to show at most")] = 2000,
    column: Annotated[int, Field(ge=1, description="For one very long line: its first character to show")] = 1,
    pages: Annotated[str, Field(description="For a PDF: the pages to show, e.g. 3, 3-7 or 3-")] = "",
) -> str | ToolResult:
    """Read a file of the workspace: text with a number before each line, the text of a PDF, the cells of a notebook.

    Long files come in pages: the last line of a page says how to go on. Of a picture you learn format and size, and
    are shown it if you can see.
    """
    real = await asyncio.to_thread(inside, context.workspace, path)
    name = shown(context.workspace, real)
    window = Window(offset, limit, column)
    with await asyncio.to_thread(open_regular, real, name) as file, explained(name, real):
        if is_pdf(await asyncio.to_thread(_head, file)):
            return await pdf_pages(file, name, pages, PAGE_BYTES)
        return await asyncio.to_thread(_shown, file, name, real, window)


def _head(file: BinaryIO) -> bytes:
    return file.read(1024)


def _shown(file: BinaryIO, name: str, path: Path, window: Window) -> str | ToolResult:
    for kind in _KINDS:
        file.seek(0)
        text = kind(file, name, path, window)
        if text is not None:
            return text
    return page_of_file(file, name, window)


def _picture(file: BinaryIO, name: str, path: Path, window: Window) -> ToolResult | None:
    found = pixels(file)
    if found is None:
        return None
    kind, measure = found
    pixel_size = f"{measure[0]} x {measure[1]} pixels" if measure else "size in pixels unknown, perhaps damaged"
    total = os.fstat(file.fileno()).st_size
    text = f"{name} is a {kind} picture, {pixel_size}, {size(total)}."
    if measure is None or total > PICTURE_BYTES or measure[0] * measure[1] > PICTURE_PIXELS:
        return ToolResult(f"{text} It cannot be shown.")
    file.seek(0)
    return ToolResult(text, picture=file.read(PICTURE_BYTES))


def _notebook(file: BinaryIO, name: str, path: Path, window: Window) -> str | None:
    if path.suffix.lower() != ".ipynb":
        return None
    data = file.read(EDIT_LIMIT_BYTES + 1)
    if len(data) > EDIT_LIMIT_BYTES:
        return None
    encoding = encoding_of(data)
    text = notebook(data[len(encoding.bom) :].decode(encoding.codec, errors="replace"))
    if text is None:
        return None
    note = f"[{name} is a notebook, shown as text; the file itself is JSON]"
    return f"{note}\n{page(io.StringIO(text), f'{name} goes on', name, window)}"


_KINDS: tuple[Callable[[BinaryIO, str, Path, Window], str | ToolResult | None], ...] = (_picture, _notebook)
