"""The same calls again and again end a turn; calls that only read run side by side."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.agent.artifact import LEAST_BYTES, RESULT_BYTES, TURN_BYTES, limit_bytes
from app.agent.loop import Progress, run_turn
from app.agent.repetition import NOTE_AFTER, STOP_AFTER, fingerprint, of_round
from app.agent.tool import Effect, Toolbox, ToolContext, tool
from app.tables import calls
from tests.unit.agent.test_agent_loop import FakeSteps, Script, act, say
from tests.unit.core.embedded import embedded
from tests.unit.house import flow, message, wishes


def printed(thought: dict[str, Any], *prints: str) -> dict[str, Any]:
    return thought | {"calls": [c | {"print": p} for c, p in zip(thought["calls"], prints, strict=True)]}


def test_a_fingerprint_is_of_the_meaning_not_of_the_spelling() -> None:
    assert fingerprint("ls", '{"a": 1, "b": 2}') == fingerprint("ls", '{"b":2,"a":1}')
    assert fingerprint("ls", '{"a": 1}') != fingerprint("ls", '{"a": 2}')
    assert fingerprint("ls", "{}") != fingerprint("find", "{}")
    assert fingerprint("ls", "{broken") == fingerprint("ls", "{broken")
    assert of_round(["b", "a"]) == of_round(["a", "b"])


# TRAPS, context: 1,535 identical polls cost 150 dollars.
async def test_the_same_call_again_and_again_ends_the_turn_with_a_plain_sentence() -> None:
    script = Script([printed(act("poll"), "same")])
    ending = await run_turn(FakeSteps(), script.bodies, flow("S"))
    assert len(script.requests) == STOP_AFTER
    assert [r["repeats"] for r in script.requests] == [0, 0, *range(NOTE_AFTER - 1, STOP_AFTER - 1)]
    assert "poll" in script.finished[0]["text"] and script.finished[0]["state"] == "failed"
    assert ending.kind == "failed"


async def test_another_call_in_between_starts_the_count_again() -> None:
    same, other = printed(act("poll"), "same"), printed(act("poll"), "other")
    script = Script([same, same, same, same, other, same, same, same, same, say()])
    await run_turn(FakeSteps(), script.bodies, flow("S"))
    assert len(script.requests) == 10 and script.finished[0]["state"] == "finished"


def test_rounds_without_calls_are_never_the_same() -> None:
    progress = Progress().after_round().after_round()
    assert progress.repeats == 0


def test_results_side_by_side_share_the_room_of_their_message() -> None:
    assert limit_bytes(0, 1) == RESULT_BYTES
    assert limit_bytes(0, 3) == TURN_BYTES // 3 == RESULT_BYTES
    assert limit_bytes(0, 6) * 6 <= TURN_BYTES
    assert limit_bytes(TURN_BYTES, 1) == LEAST_BYTES


@pytest.mark.usefixtures("clean_environment")
async def test_calls_that_only_read_run_at_the_same_time(tmp_path: Path, template: Path) -> None:
    together = asyncio.Barrier(3)

    @tool(Effect.READ)
    async def look(context: ToolContext) -> str:
        """Waits until three of its kind run."""
        await asyncio.wait_for(together.wait(), 10)
        return "seen"

    answers = [wishes(*[("look", "{}")] * 3), "Done."]
    async with embedded(tmp_path / "house", template, *answers, toolbox=Toolbox.of(look)) as life:
        await life.send(message())
        assert life.house.channel.sent == ["Done."]
        rows = life.house.rows(calls.select())
        assert [(row.state, row.result) for row in rows] == [("finished", "seen")] * 3


@pytest.mark.usefixtures("clean_environment")
async def test_calls_of_which_one_writes_run_in_order(tmp_path: Path, template: Path) -> None:
    order: list[str] = []

    @tool(Effect.READ)
    async def look(context: ToolContext) -> str:
        """Looks."""
        order.append("look")
        await asyncio.sleep(0)
        order.append("looked")
        return "seen"

    @tool(Effect.IDEMPOTENT)
    async def note(context: ToolContext) -> str:
        """Notes."""
        order.append("note")
        return "noted"

    answers = [wishes(("look", "{}"), ("note", "{}"), ("look", "{}")), "Done."]
    async with embedded(tmp_path / "house", template, *answers, toolbox=Toolbox.of(look, note)) as life:
        await life.send(message())
    assert order == ["look", "looked", "note", "look", "looked"]
