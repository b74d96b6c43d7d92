"""Rows 15 and 16 of docs/races.md: runs that an operator starts again, told by records."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.tables import calls, deliveries, messages
from app.tables import turns as turn_rows
from tests.unit.agent.test_agent_commands import say
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message, wishes

LOOK = wishes(("look", {"at": "sea"}))
PUSH = wishes(("push", {"what": "a"}))


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template) as one:
        yield one


async def talk(life: Embedded, text: str, key: str, *answers: Any) -> str:
    """Say something and hear the answer; the id of the run."""
    life.house.model.answers = list(answers)
    await life.send(message(text, key))
    return (await life.runs("handle-message"))[-1].id


async def replay(life: Embedded, run: str, *answers: Any, from_step: str | None = None) -> str:
    life.house.model.answers = list(answers) or [Completion("never asked")]
    again: str = await life.link.engine.replay(run, from_step)
    await life.link.engine.idle()
    return again


def shown(life: Embedded) -> list[str]:
    """What the model was shown last, without the system prompt."""
    return [str(m["content"]) for m in life.house.model.requests[-1][1][1:]]


def inputs(life: Embedded) -> dict[str, tuple[str, str | None]]:
    rows = life.house.rows(messages.select().where(messages.c.role == "user"))
    return {row.message_key: (row.state, row.answered_by) for row in rows}


async def output(life: Embedded, run: str) -> Any:
    return (await life.link.engine.run(run)).run.output


async def test_a_finished_turn_is_done_again_from_the_transcript_as_it_stood(life: Embedded) -> None:
    await talk(life, "one", "k1", Completion("to one"))
    run = await talk(life, "two", "k2", LOOK, Completion("to two"))
    again = await replay(life, run, Completion("to two, better"))
    assert shown(life) == ["one", "to one", "two"]
    assert life.house.channel.sent == ["to one", "to two", "to two, better"]
    assert inputs(life)["k2"] == ("answered", again) and (await output(life, again))["kind"] == "answered"


async def test_its_answer_supersedes_the_old_one(life: Embedded) -> None:
    await talk(life, "one", "k1", Completion("to one"))
    run = await talk(life, "two", "k2", Completion("to two"))
    await replay(life, run, LOOK, Completion("to two, better"))
    await talk(life, "three", "k3", Completion("to three"))
    assert shown(life)[:3] == ["one", "to one", "two"] and "to two" not in shown(life)
    assert shown(life)[-2:] == ["to two, better", "three"]


async def test_what_was_said_since_stands_behind_the_new_answer(life: Embedded) -> None:
    run = await talk(life, "one", "k1", Completion("to one"))
    await talk(life, "two", "k2", Completion("to two"))
    await replay(life, run, Completion("to one, better"))
    assert shown(life) == ["one"]
    await talk(life, "three", "k3", Completion("to three"))
    assert shown(life) == ["one", "to one, better", "two", "to two", "three"]


async def test_a_replay_can_be_replayed(life: Embedded) -> None:
    run = await talk(life, "one", "k1", Completion("first"))
    again = await replay(life, run, Completion("second"))
    await replay(life, again, Completion("third"))
    assert life.house.channel.sent == ["first", "second", "third"]
    await talk(life, "two", "k2", Completion("to two"))
    assert shown(life) == ["one", "third", "two"]


async def test_a_failed_turn_is_done_again(life: Embedded) -> None:
    run = await talk(life, "one", "k1", ModelFailure(Trouble.QUOTA, "no credit"))
    assert inputs(life)["k1"][0] == "failed"
    again = await replay(life, run, Completion("Now."))
    assert life.house.channel.sent[-1] == "Now." and inputs(life)["k1"] == ("answered", again)
    await talk(life, "two", "k2", Completion("to two"))
    assert shown(life) == ["one", "Now.", "two"]


async def test_answered_by_the_turn_of_another_event_it_ends_and_says_so(life: Embedded) -> None:
    """The first run was superseded; the second one answered both."""
    first = await talk(life, "one", "k1", ModelFailure(Trouble.OVERLOADED, "busy", 300.0))
    await talk(life, "two", "k2", Completion("to both"))
    again = await replay(life, first)
    assert await output(life, again) == {"kind": "answered"}
    assert life.house.channel.sent == ["to both"] and len(life.house.model.requests) == 2


async def test_our_replay_waits_for_the_live_turn(life: Embedded) -> None:
    """Row 15."""
    run = await talk(life, "one", "k1", Completion("to one"))
    await talk(life, "two", "k2", ModelFailure(Trouble.OVERLOADED, "busy", 60.0), Completion("to two"))
    again: str = await life.link.engine.replay(run)
    await life.link.engine.idle()
    life.house.model.answers = [Completion("to two"), Completion("to one, better")]
    await life.pass_time(30, 5)
    assert life.house.channel.sent == ["to one"] and (await life.link.engine.run(again)).run.status == "Running"
    await life.pass_time(90, 5)
    assert life.house.channel.sent == ["to one", "to two", "to one, better"]
    assert {row.state for row in life.house.rows(turn_rows.select())} == {"finished"}


async def test_from_a_foreign_dashboard_the_cancelled_turns_messages_are_woken_again(life: Embedded) -> None:
    """Row 15: there a rerun cancels the live run, and ends itself because its message is answered."""
    first = await talk(life, "one", "k1", ModelFailure(Trouble.OVERLOADED, "busy", 300.0))
    await talk(life, "two", "k2", Completion("to both"))
    live = await talk(life, "three", "k3", ModelFailure(Trouble.OVERLOADED, "busy", 30.0), Completion("to three"))
    await life.link.engine.cancel(live)
    again: str = await life.link.engine.replay(first)
    await life.pass_time(100, 10)
    assert await output(life, again) == {"kind": "answered"}
    assert life.house.channel.sent == ["to both", "to three"] and {s for s, _ in inputs(life).values()} == {"answered"}


async def test_a_persons_message_takes_a_replay_over_and_all_is_answered(life: Embedded) -> None:
    run = await talk(life, "one", "k1", Completion("to one"))
    await talk(life, "two", "k2", Completion("to two"))
    await replay(life, run, ModelFailure(Trouble.OVERLOADED, "busy", 300.0))
    await talk(life, "three", "k3", Completion("to three"))
    assert shown(life) == ["one", "to one", "two", "to two", "three"]
    assert {state for state, _ in inputs(life).values()} == {"answered"}


async def test_what_a_machine_says_meanwhile_is_answered_behind_it(life: Embedded) -> None:
    run = await talk(life, "one", "k1", Completion("to one"))
    await replay(life, run, ModelFailure(Trouble.OVERLOADED, "busy", 30.0))
    await life.send(message("a file came", "k2", steers=False, origin="the watcher"))
    life.house.model.answers = [Completion("to one, better"), Completion("I saw the file.")]
    await life.pass_time(100, 10)
    assert life.house.channel.sent == ["to one", "to one, better", "I saw the file."]


async def test_only_the_new_answer_is_sent_also_with_the_old_one_unread(life: Embedded) -> None:
    run = await talk(life, "one", "k1", Completion("to one"))
    again = await replay(life, run, Completion("to one, better"))
    keys = [row.key for row in life.house.rows(deliveries.select())]
    assert keys == [f"{run}/reply/0", f"{again}/reply/0"]


async def test_a_replay_of_a_taken_back_exchange_answers_and_changes_nothing(life: Embedded) -> None:
    run = await talk(life, "one", "k1", Completion("to one"))
    await say(life.house, "undo", "c1")
    await replay(life, run, Completion("to one, better"))
    assert life.house.channel.sent[-1] == "to one, better"
    await talk(life, "two", "k2", Completion("to two"))
    assert shown(life) == ["two"]


# Row 16: from a later step


async def test_from_a_thought_it_goes_on_from_the_head_in_the_memo_before(life: Embedded) -> None:
    run = await talk(life, "one", "k1", LOOK, PUSH, Completion("to one"))
    steps = (await life.link.engine.run(run)).steps
    last_thought = [step.id for step in steps if step.name == "think"][-1]
    again = await replay(life, run, Completion("to one, better"), from_step=last_thought)
    assert shown(life)[-1] == "pushed a" and "saw sea" in shown(life)
    assert life.house.log == ["look sea", "push a"], "what was done before is not done again"
    assert life.house.channel.sent == ["to one", "to one, better"]
    assert [row.state for row in life.house.rows(turn_rows.select().where(turn_rows.c.run_id == again))] == ["finished"]


async def test_from_a_tool_it_claims_by_its_own_run_and_runs_the_tool_again(life: Embedded) -> None:
    run = await talk(life, "one", "k1", wishes(("look", {}), ("push", {"what": "a"})), Completion("to one"))
    again = await replay(life, run, Completion("to one, better"), from_step="tool-push")
    assert life.house.log == ["look here", "push a", "push a"]
    assert shown(life)[-2:] == ["saw here", "pushed a"]
    rows = life.house.rows(calls.select().where(calls.c.run_id == again).order_by(calls.c.id))
    assert [(row.name, row.state) for row in rows] == [("look", "finished"), ("push", "finished")]
    await talk(life, "two", "k2", Completion("to two"))
    assert shown(life)[-2:] == ["to one, better", "two"] and shown(life).count("pushed a") == 1


async def test_from_its_last_step_the_same_answer_is_sent_once_more(life: Embedded) -> None:
    run = await talk(life, "one", "k1", LOOK, Completion("to one"))
    await replay(life, run, from_step="finish")
    assert life.house.channel.sent == ["to one", "to one"] and len(life.house.model.requests) == 2
