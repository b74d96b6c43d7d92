"""A workspace in a fresh folder, and a way to call a tool as the act step does."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.tool import Tool, ToolContext, ToolResult
from app.clock import ManualClock
from app.errors import MoabError


class RecordedNotes:
    """Notes that keep one text per key, as the daily log does."""

    def __init__(self) -> None:
        self.by_key: dict[str, str] = {}

    async def remember(self, text: str, key: str) -> str:
        self.by_key.setdefault(key, text)
        return "Noted."


@pytest.fixture
def notes() -> RecordedNotes:
    return RecordedNotes()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def context(workspace: Path, notes: RecordedNotes) -> ToolContext:
    return ToolContext(
        workspace=workspace, session_id="s1", run_id="run1", step_key="tool#0.0", clock=ManualClock(), notes=notes
    )


Call = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def call(context: ToolContext) -> Call:
    """Validates the arguments, runs the tool, and turns a MoabError into a failed result."""

    async def run(tool: Tool, context_changes: dict[str, Any] | None = None, /, **arguments: Any) -> ToolResult:
        try:
            result = await tool.run(replace(context, **(context_changes or {})), **tool.validate(arguments))
        except MoabError as error:
            return ToolResult(str(error), ok=False)
        return result if isinstance(result, ToolResult) else ToolResult(result)

    return run
