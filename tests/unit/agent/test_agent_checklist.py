"""HEARTBEAT.md: looked at by day and seldom; quiet looks make pauses, failures an end that is said."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.agent.heartbeat.checklist import (
    EVERY,
    FILE,
    LONGEST,
    MAX_FAILURES,
    Verdict,
    has_items,
    look_at_checklist,
    look_now,
    pause_after,
    verdict_of,
)
from app.agent.heartbeat.look import look_around
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.memory.workspace import SEED
from app.tables import deliveries, messages, rounds
from app.web.usage import usage_report
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import SESSION, House, begin, make_house, message, run_id

QUIET = '{"say": "quiet"}'
SPEAK = 'Sure:\n```json\n{"say": "speak", "text": "Ask for the report."}\n```'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("# Checklist\n\n", False),
        ("# Checklist\n<!-- - an example\n- another -->\n", False),
        ("# Checklist\n<!-- a --> <!-- b", False),
        ("# Checklist\n- ask for the report\n", True),
        ("<!-- a -->\nask for the report", True),
    ],
)
def test_whether_there_is_anything_on_it(text: str, expected: bool) -> None:
    assert has_items(text) is expected


def test_the_one_that_a_new_workspace_has_is_empty() -> None:
    assert has_items((SEED / FILE).read_text()) is False


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (QUIET, Verdict(say="quiet")),
        (SPEAK, Verdict(say="speak", text="Ask for the report.")),
        ("All is well.", None),
        ('{"say": "shout"}', None),
        ('{"say": "speak", "text": " "}', None),
        ("} {", None),
        ("", None),
    ],
)
def test_what_an_answer_says(answer: str, expected: Verdict | None) -> None:
    assert verdict_of(answer) == expected


def test_the_pause_grows_while_it_is_quiet() -> None:
    minutes = [pause_after(quiet) // timedelta(minutes=1) for quiet in range(14)]
    assert minutes == [30, 30, 30, 60, 60, 60, 120, 120, 120, 240, 240, 240, 240, 240]
    assert pause_after(10_000) == LONGEST


def write(house: House, text: str = "- ask for the report\n") -> None:
    (house.harness.workspace.root / FILE).write_text(text)


async def beat(house: House, number: int = 0) -> bool:
    """A beat; whether it looked at the checklist."""
    chores = (await look_around(house.harness, None))["chores"]
    if {"step": "checklist", "of": ""} not in chores:
        return False
    await look_at_checklist(house.harness, run_id(number), "")
    return True


async def day(house: House, hours: int) -> list[float]:
    """Beats of every minute; after how many hours the checklist was looked at."""
    begun, looked = house.clock.now(), []
    for minute in range(hours * 60):
        if await beat(house, minute):
            looked.append((house.clock.now() - begun) / timedelta(hours=1))
        house.clock.advance(60)
    return looked


async def test_without_items_or_anybody_to_tell_no_model_is_asked(house: House) -> None:
    write(house, "# Checklist\n")
    await begin(house)
    assert await day(house, 1) == [] and house.model.requests == []


async def test_without_anybody_to_tell_no_model_is_asked(house: House) -> None:
    write(house)
    assert await day(house, 1) == [] and house.model.requests == []


async def test_a_tiny_model_is_not_asked(tmp_path: Path, template: Path, clean_environment: None) -> None:
    house = make_house(tmp_path / "h", template, agent_model="")
    write(house)
    await begin(house)
    assert await day(house, 1) == []
    await house.db.close()


async def test_it_is_looked_at_by_day_and_less_while_it_is_quiet(house: House) -> None:
    write(house)
    await begin(house)
    house.model.answers = [QUIET]
    assert await day(house, 20) == [0, 0.5, 1, 2, 3, 4, 6, 8, 10, 18]  # from noon; night is from 23:00 to 06:00
    (shown,) = {str(request[1][0]["content"]) for request in house.model.requests}
    assert len(shown) < 1_000 and all(len(str(request[1])) < 3_000 for request in house.model.requests)
    assert house.rows(deliveries.select()) == []
    report = await usage_report(house.harness, "session", 2)
    assert [(row["name"], row["calls"]) for row in report["rows"]] == [("heartbeat", 10)]


async def test_what_it_says_reaches_the_chat_as_an_input_that_steers_nobody(house: House) -> None:
    write(house)
    await begin(house)
    house.model.answers = [SPEAK]
    assert await beat(house) and not await beat(house)
    await look_at_checklist(house.harness, run_id(0), "")  # the same step again
    (row,) = house.rows(messages.select().where(messages.c.origin == "heartbeat"))
    assert "Ask for the report." in row.text and row.message_key == f"heartbeat:{run_id(0)}"
    (start,) = house.sender.of("agent.message.received")
    assert start["data"]["steers"] is False and start["data"]["sessionKey"] == SESSION
    house.clock.advance(EVERY.total_seconds())
    assert await beat(house, 1)


@pytest.mark.parametrize("answer", [ModelFailure(Trouble.UNAVAILABLE, "away"), Completion("I think all is well.")])
async def test_after_failures_it_stops_and_says_so_once(house: House, answer: Any) -> None:
    write(house)
    await begin(house)
    house.model.answers = [answer]
    assert len(await day(house, 8)) == MAX_FAILURES == len(house.model.requests)
    (told,) = house.rows(deliveries.select())
    assert told.text.startswith("I have stopped looking at HEARTBEAT.md: 5 looks in a row failed")
    house.model.answers = [QUIET]
    write(house, "- ask for the minutes\n")
    assert await beat(house)
    assert [row.failures for row in house.rows(rounds.select().where(rounds.c.name == "checklist"))] == [0]


async def test_somebody_can_have_it_begin_again(house: House) -> None:
    write(house)
    await begin(house)
    house.model.answers = [ModelFailure(Trouble.UNAVAILABLE, "away")]
    await day(house, 4)
    assert not await beat(house)
    with house.tx() as tx:
        look_now(tx, house.clock.now())
    assert await beat(house, 999)


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, heartbeat_cron="") as one:
        yield one


async def test_on_the_engine_the_agent_does_what_the_look_found(life: Embedded) -> None:
    write(life.house)
    life.house.model.answers = ["Hello.", SPEAK, "Is the report done?", QUIET]
    await life.send(message())
    await life.pass_time(180, 60)
    assert life.house.channel.sent == ["Hello.", "Is the report done?"]
    looked = [run for run in await life.runs("heartbeat") if "checklist" in await life.steps(run)]
    assert len(looked) == 1
