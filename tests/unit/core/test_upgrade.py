"""An upgrade in mid-turn: memos of one version are gone through again by the code of another."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.tables import messages
from app.tables import turns as turn_rows
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message, wishes

BUSY = ModelFailure(Trouble.OVERLOADED, "busy", 60.0)


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, agent_max_iterations=3) as one:
        yield one


def rewrite(life: Embedded, step: str, change: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
    """Change the newest memo of a step as another version would have written it, while no process runs."""

    def work() -> None:
        connection = sqlite3.connect(life.house.harness.settings.home / "engine.db")
        query = (
            "SELECT rowid, memo FROM steps WHERE name = ? AND memo LIKE '%run_id%' OR name = ? AND memo LIKE '%kind%'"
        )
        rowid, memo = connection.execute(query + " ORDER BY rowid DESC LIMIT 1", (step, step)).fetchone()
        parsed = json.loads(memo)
        change(parsed["data"])
        connection.execute("UPDATE steps SET memo = ? WHERE rowid = ?", (json.dumps(parsed), rowid))
        connection.commit()
        connection.close()

    return work


async def test_a_turn_goes_on_by_its_recorded_flow(life: Embedded) -> None:
    """A tool is gone, a limit is another one, the model is another one: what was recorded steers the turn."""
    life.house.model.answers = [wishes(("look", {})), BUSY, wishes(("look", {})), Completion("Done.")]
    await life.send(message())
    changed = life.house.harness.settings.model_copy(update={"agent_max_iterations": 1, "agent_model": "newer/model"})
    await life.restart(code_version="1", toolbox=life.house.harness.toolbox.without("look"), settings=changed)
    await life.pass_time(62, 31)
    assert life.house.channel.sent == ["Done."] and life.house.log == ["look here"]
    models = {model for model, _, _ in life.house.model.requests}
    assert models == {"test/model"}
    last = str(life.house.model.requests[-1][1])
    assert "saw here" in last and "There is no tool 'look'. Available:" in last
    (turn,) = await life.runs("handle-message")
    assert turn.status == "Completed"
    flow = (await life.link.engine.run(turn.id)).steps[0].output
    assert flow["code_version"] == "0"


async def test_fields_that_came_or_went_between_versions_do_no_harm(life: Embedded) -> None:
    life.house.model.answers = [wishes(("look", {})), BUSY, Completion("Done.")]
    await life.send(message())

    def older(flow: dict[str, Any]) -> None:
        flow["retired_field"] = {"deep": [1]}
        for added in ("policy", "think", "channel", "summary_model", "code_version"):
            flow.pop(added, None)

    await life.restart(rewrite(life, "receive", older), code_version="1")
    await life.pass_time(62, 31)
    assert life.house.channel.sent == ["Done."]
    assert [row.state for row in life.house.rows(turn_rows.select())] == ["finished"]


async def test_what_cannot_be_read_any_more_starts_again_from_the_transcript(life: Embedded) -> None:
    life.house.model.answers = [wishes(("push", {"what": "a"})), BUSY, Completion("Done.")]
    await life.send(message())

    def foreign(thought: dict[str, Any]) -> None:
        thought["kind"] = "pondered"

    await life.restart(rewrite(life, "think", foreign), code_version="1")
    await life.pass_time(62, 31)
    assert life.house.channel.sent == ["Done."]
    assert life.house.log == ["push a"], "what was done is in the transcript and not done again"
    assert [row.state for row in life.house.rows(turn_rows.select())] == ["superseded", "finished"]
    assert {row.state for row in life.house.rows(messages.select()) if row.role == "user"} == {"answered"}
    assert "pushed a" in str(life.house.model.requests[-1][1])


@pytest.mark.parametrize("field", ["max_iterations", "policy", "stop"])
async def test_conditions_that_cannot_be_read_any_more_are_made_anew(life: Embedded, field: str) -> None:
    life.house.model.answers = [wishes(("push", {"what": "a"})), BUSY, Completion("Done.")]
    await life.send(message())

    def foreign(flow: dict[str, Any]) -> None:
        flow[field] = "said differently"

    await life.restart(rewrite(life, "receive", foreign), code_version="1")
    await life.pass_time(62, 31)
    assert life.house.channel.sent == ["Done."], "and nobody is told that it failed"
    assert life.house.log == ["push a"]
    assert [row.state for row in life.house.rows(turn_rows.select())] == ["superseded", "finished"]
    kinds = [run.output["kind"] for run in await life.runs("handle-message") if run.status == "Completed"]
    assert kinds == ["superseded", "answered", "busy"]
    assert await life.runs("failure-handler") == []


@pytest.mark.parametrize("step", ["receive", "think"])
async def test_a_sub_agent_whose_memos_cannot_be_read_goes_through_its_records_again(life: Embedded, step: str) -> None:
    """Its parent waits for this very run, so it goes on in it."""
    task = wishes(("delegate_task", {"task": "look around"}))
    life.house.model.answers = [task, wishes(("push", {"what": "a"})), BUSY, Completion("Seen."), Completion("Done.")]
    await life.send(message())

    def foreign(memo: dict[str, Any]) -> None:
        memo["stop" if step == "receive" else "kind"] = "said differently"

    await life.restart(rewrite(life, step, foreign), code_version="1")
    await life.pass_time(62, 31)
    assert life.house.channel.sent == ["Done."] and life.house.log == ["push a"]
    (child,) = await life.runs("sub-agent")
    assert child.status == "Completed" and child.output["text"] == "Seen."
    assert "receive-again" in await life.steps(child)
    assert len(life.house.model.requests) == 5, "what was thought is not thought again"


async def test_a_turn_that_never_can_be_read_is_not_begun_for_ever(life: Embedded) -> None:
    """Each new run is readable; even if it were not, a message is woken three times at most."""
    life.house.model.answers = [BUSY, BUSY, Completion("Done.")]
    await life.send(message())

    def foreign(thought: dict[str, Any]) -> None:
        thought["kind"] = "pondered"

    for _ in range(6):
        await life.restart(rewrite(life, "think", foreign))
        life.house.model.answers = [BUSY]
        await life.pass_time(61, 61)
    assert len(await life.runs("handle-message")) <= 1 + 3
