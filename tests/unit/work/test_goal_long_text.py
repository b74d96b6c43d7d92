"""A text that is too long for a model's window: read part by part, each paid once, then put together."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from app.agent.goals import model as goal_model
from app.agent.goals.run import run_try
from app.agent.models.llm import PLAIN, Asking, Completion, Facts, ModelFailure, Trouble
from app.events import SubagentSpawn
from app.tables import usage
from app.work.pieces import LEFT_OUT, pieces_of, shortened
from tests.unit.house import DirectSteps, House, Killed, run_id
from tests.unit.work.goal_house import Engine, Judge, make, view, workspace_file

WINDOW = 2_000
ROOM_CHARS = (WINDOW - WINDOW // 4) * 4
SENTENCES = [f"Sentence number{n} says something that matters." for n in range(400)]
NUMBER = re.compile(r"number(\d+)\b")


class Narrow(Judge):
    """A judge with a small window; what he says of a part names its first sentence."""

    def __init__(self, brief: bool = True) -> None:
        super().__init__()
        self.known = Facts(window=WINDOW)
        self.failing: set[int] = set()
        self.brief = brief

    async def complete(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        asking: Asking = PLAIN,
    ) -> Completion | ModelFailure:
        assert sum(len(message["content"]) for message in messages) <= ROOM_CHARS, "more than fits was asked"
        if len(self.requests) in self.failing:
            self.failing.discard(len(self.requests))
            return ModelFailure(Trouble.UNAVAILABLE, "away")
        shown = str(messages[1]["content"])
        if "is part" not in shown:
            return await super().complete(model, messages, tools, asking)
        self.requests.append((model, [dict(m) for m in messages], []))
        said = f"It begins with sentence number{NUMBER.findall(shown)[0]}, and goes on from there."
        return Completion(said if self.brief else shown[-3_000:], input_tokens=10, output_tokens=5)

    def parts(self) -> list[str]:
        return [messages[1]["content"] for _, messages, _ in self.requests if "is part" in messages[1]["content"]]

    def wholes(self) -> list[str]:
        shown = [messages[1]["content"] for _, messages, _ in self.requests]
        return [text for text in shown if "too long to be read at once. What follows is what came of" in text]


def narrow(house: House, **more: Any) -> tuple[House, Narrow]:
    model = Narrow(**more)
    return replace(house, model=model, harness=replace(house.harness, llm=model)), model


async def talk(house: House) -> str:
    path = house.harness.workspace.root / "talk.txt"
    path.write_text(" ".join(SENTENCES))
    return (await make(house, "podcast_from_transcript", path)).goal.id


async def test_every_part_is_read_once_and_then_the_whole_is_made(goal_house: House) -> None:
    house, model = narrow(goal_house)
    goal_id = await talk(house)
    await Engine(house).run()
    shown = await view(house, goal_id)
    assert shown["life"] == "COMPLETED", shown["reason"]
    read = [int(number) for part in model.parts() for number in NUMBER.findall(part)]
    assert read == list(range(400)), "the whole text, in its order, and nothing twice"
    (whole,) = model.wholes()
    assert whole.count("It begins with sentence") == len(model.parts()) > 3
    page = workspace_file(house, next(step["product"] for step in shown["steps"] if step["id"] == "page"))
    assert "light of short waves" in page and "number399" in page
    judged = next(m[1]["content"] for _, m, _ in model.requests if "You judge" in m[0]["content"])
    assert "characters are left out here" in judged and "number0 " in judged and "number399 " in judged
    assert len(house.rows(select(usage))) == len(model.requests)


async def test_parts_that_were_read_are_not_paid_again_by_another_try(goal_house: House) -> None:
    house, model = narrow(goal_house)
    model.failing = {2}
    goal_id = await talk(house)
    await Engine(house).run()
    shown = await view(house, goal_id)
    assert shown["life"] == "COMPLETED" and shown["steps"][0]["tries"] == 2
    parts = model.parts()
    assert len(parts) == len(set(parts)) and len(model.wholes()) == 1


@pytest.mark.parametrize("place", ["_made", "reach"])
async def test_parts_that_were_read_are_not_paid_again_after_a_kill(
    goal_house: House, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Before what came of a part is a file, and after it."""
    house, model = narrow(goal_house)
    await talk(house)
    (_, _, spawn) = Engine(house).waiting()[0]
    left, go_on = [3], getattr(goal_model, place)

    def die(*given: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise Killed
        return go_on(*given)

    monkeypatch.setattr(goal_model, place, die)
    with pytest.raises(Killed):
        await begin_try(house, spawn)
    done = len(model.requests)
    again = house.rebooted()
    await begin_try(again, spawn)
    parts = model.parts()
    assert done >= 2 and len(parts) == len(set(parts)) and len(model.wholes()) == 1


async def begin_try(house: House, spawn: SubagentSpawn) -> None:
    await run_try(DirectSteps(house), house.harness, run_id(1), spawn)


async def test_what_came_of_the_parts_may_be_too_long_again_but_not_for_ever(goal_house: House) -> None:
    house, model = narrow(goal_house, brief=False)
    goal_id = await talk(house)
    await Engine(house).run()
    shown = await view(house, goal_id)
    assert shown["life"] == "FAILED_PERMANENT" and "also in parts" in shown["reason"]
    assert shown["steps"][0]["tries"] == 1 and len(model.requests) < 60


async def test_the_budget_holds_for_every_part(goal_house: House) -> None:
    settings = goal_house.harness.settings.model_copy(update={"budget_turn_tokens": 8_000})
    house, model = narrow(replace(goal_house, harness=replace(goal_house.harness, settings=settings)))
    goal_id = await talk(house)
    await Engine(house).run()
    shown = await view(house, goal_id)
    assert shown["life"] == "FAILED_PERMANENT" and "budget" in shown["reason"].lower(), shown["reason"]
    assert len(model.parts()) == len(set(model.parts()))


@given(st.text(alphabet="ab .\n", max_size=400), st.integers(1, 40))
def test_pieces_are_the_text(text: str, size: int) -> None:
    pieces = pieces_of(text, size)
    assert all(0 < len(piece) <= size for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_pieces_end_where_something_ends() -> None:
    assert pieces_of("One two.\n\nThree four. Five", 14) == ["One two.", "Three four.", "Five"]
    assert pieces_of("  ", 5) == [] and pieces_of("abcdef", 4) == ["abcd", "ef"]


def test_what_is_shortened_says_so() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("a" * 60 + "b" * 60, 30) == "a" * 20 + LEFT_OUT.format(count=90) + "b" * 10
