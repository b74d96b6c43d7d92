"""Summaries, budgets and the fallback on the embedded engine: as durable steps, over replays."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.agent.context.compaction import SHORTENED
from app.agent.models.llm import Completion, Facts, ModelFailure, Trouble
from app.tables import messages, usage
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message, wishes

SUMMARY = "## Goal\n- the fox\n## Critical facts\n- den 7"
LONG = "owl " * 900


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, fallback_agent_model="other/model") as one:
        yield one


async def talk(life: Embedded, turns: int = 5) -> None:
    life.house.model.answers = ["An answer. " * 30]
    for number in range(turns):
        await life.send(message(f"question {number} {LONG}", f"k{number}"))
    life.house.model.requests.clear()


async def last_steps(life: Embedded) -> list[str]:
    return await life.steps((await life.runs("handle-message"))[-1])


async def test_a_full_window_is_summarised_in_a_step_of_its_own(life: Embedded) -> None:
    await talk(life)
    life.house.model.known = Facts(window=6_000)
    life.house.model.answers = [SUMMARY, "Here."]
    await life.send(message("and now?", "now"))
    assert await last_steps(life) == ["receive", "think", "compact", "think", "finish"]
    assert life.house.channel.sent[-1] == "Here."
    shown = str(life.house.model.requests[-1][1])
    assert "den 7" in shown and "question 0" not in shown and "and now?" in shown
    rows = [row.role for row in life.house.rows(messages.select())]
    assert rows.count("user") == 6 and rows.count("summary") == 1, "nothing is deleted"
    life.house.model.answers = ["Still here."]
    await life.send(message("and then?", "then"))
    assert await last_steps(life) == ["receive", "think", "finish"], "not every turn"


async def test_an_overflow_is_summarised_and_asked_again(life: Embedded) -> None:
    await talk(life)
    life.house.model.answers = [ModelFailure(Trouble.OVERFLOW, "too long"), SUMMARY, "Here."]
    await life.send(message("and now?", "now"))
    assert await last_steps(life) == ["receive", "think", "think", "compact", "think", "finish"]
    assert {model for model, _, _ in life.house.model.requests} == {"test/model"}, "overflow never falls back"


async def test_two_bad_summaries_are_enough_and_the_user_is_told(life: Embedded) -> None:
    await talk(life)
    life.house.model.known = Facts(window=6_000)
    life.house.model.answers = ["I cannot.", "No headings either.", "Here."]
    await life.send(message("and now?", "now"))
    assert await last_steps(life) == ["receive", "think", *["compact"] * 3, "think", "finish"]
    assert life.house.channel.sent[-2:] == [SHORTENED, "Here."]
    assert [model for model, _, _ in life.house.model.requests] == ["test/model", "other/model", "test/model"]


async def test_a_turn_over_its_budget_ends_in_plain_words(
    tmp_path: Path, template: Path, clean_environment: None
) -> None:
    polls = Completion("", wishes(("look", {})).wishes, input_tokens=20_000)
    async with embedded(tmp_path / "house", template, polls, budget_turn_tokens=80_000) as life:
        await life.send(message())
        (turn,) = await life.runs("handle-message")
        assert turn.output["kind"] == "answered"
        assert await life.steps(turn) == ["receive", *["think", "tool-look"] * 3, "think", "finish"]
        assert "60,000 of 80,000 tokens" in life.house.channel.sent[-1]
        assert {row.state for row in life.house.rows(usage.select())} == {"settled"}


async def test_a_model_that_is_away_is_replaced_for_this_turn_alone(life: Embedded) -> None:
    life.house.model.answers = [ModelFailure(Trouble.UNAVAILABLE, "away"), "From the other.", "From the first."]
    await life.send(message())
    await life.send(message("two", "k2"))
    assert [model for model, _, _ in life.house.model.requests] == ["test/model", "other/model", "test/model"]
    assert life.house.channel.sent == ["From the other.", "From the first."]


async def test_a_sub_agent_falls_back_too(life: Embedded) -> None:
    """The error of a sub-agent's model is no answer: it falls back as its parent does."""
    wish = wishes(("delegate_task", {"task": "look around"}))
    life.house.model.answers = [wish, ModelFailure(Trouble.QUOTA, "spent"), "I saw it.", "Done."]
    await life.send(message())
    assert [model for model, _, _ in life.house.model.requests] == [
        "test/model",
        "test/model",
        "other/model",
        "test/model",
    ]
    assert life.house.channel.sent == ["Done."] and "I saw it." in str(life.house.model.requests[-1][1])
