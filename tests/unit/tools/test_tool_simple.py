"""remember, delegate_task, and the toolbox as a whole."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.agent.tool import Effect, ToolResult
from app.errors import BadInput
from tools.delegate import delegate_task
from tools.memory import remember
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
    "remember": Effect.IDEMPOTENT,
    "web_fetch": Effect.READ,
    "delegate_task": Effect.UNSAFE,
}


def test_the_toolbox_has_the_ten_tools_with_their_effects() -> None:
    toolbox = make_toolbox(environment={})
    assert {name: tool.effect for name, tool in toolbox.tools.items()} == EFFECTS
    assert [name for name, tool in toolbox.tools.items() if tool.durable] == ["delegate_task"]


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


async def test_delegate_task_is_never_run_in_a_step(call: Call) -> None:
    assert delegate_task.validate({"task": "count"}) == {"task": "count", "model": None}
    with pytest.raises(BadInput):
        delegate_task.validate({"task": ""})
    with pytest.raises(RuntimeError, match="durable"):
        await call(delegate_task, task="count")
