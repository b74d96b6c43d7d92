"""remember, search_history, send_file, delegate_task, and the toolbox as a whole."""

import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from app.agent.tool import Effect, OutgoingFile, ToolResult
from app.errors import BadInput
from tools.delegate import delegate_task
from tools.history import search_history
from tools.memory import remember
from tools.send import send_file
from tools.toolbox import make_toolbox

Call = Callable[..., Awaitable[ToolResult]]

EFFECTS = {
    "read": Effect.READ,
    "write": Effect.IDEMPOTENT,
    "edit": Effect.UNSAFE,
    "bash": Effect.UNSAFE,
    "grep": Effect.READ,
    "find": Effect.READ,
    "ls": Effect.READ,
    "bash_output": Effect.READ,
    "bash_kill": Effect.UNSAFE,
    "remember": Effect.IDEMPOTENT,
    "search_history": Effect.READ,
    "send_file": Effect.UNSAFE,
    "web_fetch": Effect.READ,
    "download": Effect.IDEMPOTENT,
    "ask_user": Effect.READ,
    "delegate_task": Effect.UNSAFE,
    "transcribe": Effect.READ,
    "list_tasks": Effect.READ,
    "cancel_task": Effect.IDEMPOTENT,
    "create_goal": Effect.IDEMPOTENT,
    "goal_status": Effect.READ,
    "record_learning": Effect.IDEMPOTENT,
    "schedule_wake": Effect.IDEMPOTENT,
    "list_wakes": Effect.READ,
    "cancel_wake": Effect.IDEMPOTENT,
    "task_start": Effect.IDEMPOTENT,
    "task_progress": Effect.IDEMPOTENT,
    "task_complete": Effect.IDEMPOTENT,
    "task_block": Effect.IDEMPOTENT,
    "external_job": Effect.IDEMPOTENT,
    "task_reply": Effect.IDEMPOTENT,
}


def test_the_toolbox_has_its_tools_with_their_effects() -> None:
    toolbox = make_toolbox(environment={})
    assert {name: tool.effect for name, tool in toolbox.tools.items()} == EFFECTS
    assert [name for name, tool in toolbox.tools.items() if tool.durable] == ["ask_user", "delegate_task"]


def test_the_schemas_are_small_and_flat() -> None:
    """Small models read all of them at every thought, and not every provider follows a $ref."""
    schemas = make_toolbox(environment={}).schemas()
    text = json.dumps(schemas)
    assert "$ref" not in text and "$defs" not in text
    assert max(len(json.dumps(schema)) for schema in schemas) < 1700
    assert len(text) < 24_000


def test_every_schema_explains_itself_to_a_model() -> None:
    for schema in make_toolbox(environment={}).schemas():
        function = schema["function"]
        assert len(function["description"]) > 60
        assert "context" not in function["parameters"]["properties"]
        for name, parameter in function["parameters"]["properties"].items():
            assert len(parameter.get("description", "")) > 15, (function["name"], name)


async def test_remembering_twice_in_one_step_is_remembering_once(call: Call, notes: Any) -> None:
    for _ in range(2):
        assert (await call(remember, text=" The  door code is 4711.\0\n")).text == "Noted."
    assert notes.by_key == {"run1/tool#0.0": "The  door code is 4711."}
    assert not (await call(remember, text=" \n")).ok


@dataclass(frozen=True)
class Said:
    session_id: str
    at: datetime
    role: str
    snippet: str


class RecordedHistory:
    """Answers every search with the same messages."""

    def __init__(self, *found: Said) -> None:
        self.found = found
        self.asked: list[tuple[str, int]] = []

    async def search(self, words: str, limit: int) -> Sequence[Said]:
        self.asked.append((words, limit))
        return self.found


async def test_past_conversations_are_shown_on_one_line_each(call: Call) -> None:
    at = datetime(2026, 1, 5, 13, 30, tzinfo=timezone(timedelta(hours=1)))
    history = RecordedHistory(Said("old", at, "user", "the code\nis 4711\0"), Said("s1", at, "assistant", "Noted."))
    result = await call(search_history, {"history": history}, words="code", limit=3)
    assert result.text.split("\n") == [
        "2026-01-05 12:30, user, earlier conversation: the code is 4711",
        "2026-01-05 12:30, you: Noted.",
    ]
    assert history.asked == [("code", 3)]
    assert "Nothing was said with 'x'" in (await call(search_history, {"history": RecordedHistory()}, words="x")).text
    assert not (await call(search_history, words="x")).ok


async def test_a_file_is_handed_over_by_its_real_path(call: Call, workspace: Path) -> None:
    (workspace / "out").mkdir()
    (workspace / "out" / "a.pdf").write_bytes(b"x" * 1200)
    (workspace / "link.pdf").symlink_to("out/a.pdf")
    result = await call(send_file, path="link.pdf", caption=" The report\0 ")
    assert (result.ok, result.text) == (True, "out/a.pdf (1.2 KB) goes to the user.")
    assert result.files == (OutgoingFile("out/a.pdf", "a.pdf", "The report"),)


# TRAPS, Tools: "`~` and symlinks escape the workspace"; The way in: "limits are told".
async def test_what_cannot_be_sent_is_refused(call: Call, workspace: Path) -> None:
    (workspace.parent / "secret").write_text("secret")
    (workspace / "link").symlink_to(workspace.parent / "secret")
    (workspace / "empty").touch()
    (workspace / "big").touch()
    os.truncate(workspace / "big", 50_000_001)
    os.mkfifo(workspace / "fifo")
    for path, words in {
        "link": "leads outside the workspace",
        "../secret": "leads outside the workspace",
        "none": "there is no such file",
        ".": "is a folder",
        "fifo": "is a special file",
        "empty": "has 0 bytes; accepted: 1 byte to 50.0 MB",
        "big": "has 50.0 MB; accepted: 1 byte to 50.0 MB",
    }.items():
        result = await call(send_file, path=path)
        assert not result.ok and result.files == () and words in result.text, path
    os.close(os.open(os.fsencode(workspace) + b"/\xff.txt", os.O_CREAT))
    assert "not readable text" in (await call(send_file, path=os.fsdecode(b"\xff.txt"))).text


async def test_delegate_task_is_never_run_in_a_step(call: Call) -> None:
    assert delegate_task.validate({"task": "count"}) == {
        "task": "count",
        "mode": "wait",
        "at": None,
        "handed_over": "none",
        "model": None,
    }
    with pytest.raises(BadInput):
        delegate_task.validate({"task": ""})
    with pytest.raises(RuntimeError, match="durable"):
        await call(delegate_task, task="count")
