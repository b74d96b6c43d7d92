"""A turn that a machine started may end without a word; one that a person started never does."""

from typing import Any

import pytest

from app.agent.delegation import supervise
from app.agent.finish import finish
from app.agent.flow import Ending, Flow
from app.agent.heartbeat import checklist, wakes
from app.agent.loop import run_turn
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.agent.people import speak
from app.agent.quiet import HINT, MAY_END_QUIETLY, MONITOR, NO_REPLY, WAKE, is_quiet
from app.agent.turn import bodies_of
from app.sessions import transcript
from app.tables import deliveries, messages
from app.tables import turns as turn_rows
from tests.unit.house import RUN, DirectSteps, House, begin, run_id, whole_turn, wishes


async def turn(house: House, origin: str, *answers: Any) -> Ending:
    house.model.answers = list(answers)
    flow = await begin(house, "how does it stand?", "k1", origin=origin, steers=origin == "person")
    return await run_turn(DirectSteps(house), bodies_of(house.harness, flow), flow)


def states(house: House) -> tuple[str, str, list[str]]:
    (row,) = house.rows(turn_rows.select())
    (asked,) = house.rows(messages.select().where(messages.c.role == "user"))
    return row.state, asked.state, [one.text for one in house.rows(deliveries.select())]


@pytest.mark.parametrize("origin", sorted(MAY_END_QUIETLY))
async def test_nothing_to_tell_is_told_nobody(house: House, origin: str) -> None:
    ending = await turn(house, origin, Completion(f"{NO_REPLY}."))
    assert ending.kind == "answered" and states(house) == ("finished", "answered", [])
    assert house.sender.of("agent.reply.ready") == [] and len(house.sender.of("agent.turn.ended")) == 1
    (row,) = house.rows(turn_rows.select())
    assert "It had nothing to tell." in row.summary


@pytest.mark.parametrize("origin", sorted(MAY_END_QUIETLY))
async def test_what_there_is_to_tell_is_told(house: House, origin: str) -> None:
    await turn(house, origin, Completion(f"It is done. {NO_REPLY} is no answer to that."))
    assert states(house)[2] == ["It is done. NO_REPLY is no answer to that."]


@pytest.mark.parametrize("origin", ["person", "a scheduled task", "a background task"])
async def test_whoever_waits_for_an_answer_gets_one(house: House, origin: str) -> None:
    await turn(house, origin, Completion(NO_REPLY))
    assert states(house)[2] == [NO_REPLY]


async def test_a_person_who_writes_meanwhile_gets_an_answer() -> None:
    assert is_quiet(NO_REPLY, "finished", [MONITOR]) and not is_quiet(NO_REPLY, "finished", [MONITOR, "person"])


async def test_an_answer_to_the_monitor_may_be_empty(house: House) -> None:
    await turn(house, MONITOR, wishes(("look", {"at": "sea"})), Completion(" "))
    assert states(house) == ("finished", "answered", []) and len(house.model.requests) == 2
    last = house.rows(messages.select().order_by(messages.c.id.desc()))[0]
    assert last.text == NO_REPLY, "every message of a transcript has words"


async def test_a_wake_may_be_a_reminder_and_so_an_empty_answer_is_asked_for_again(house: House) -> None:
    await turn(house, WAKE, Completion(""), Completion("Call your mother."))
    assert states(house)[2] == ["Call your mother."]


@pytest.mark.parametrize(("origin", "told"), [(MONITOR, 0), (WAKE, 1)])
async def test_a_question_of_the_monitor_that_fails_bothers_nobody(house: House, origin: str, told: int) -> None:
    """It is put again, and in the end a person is told of the task itself."""
    await turn(house, origin, ModelFailure(Trouble.INVALID, "no"))
    assert states(house)[0] == "failed" and len(states(house)[2]) == told


async def test_it_is_neither_shown_as_it_grows_nor_read_aloud(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing is read aloud")

    monkeypatch.setattr(speak, "read_aloud", never)
    await turn(house, MONITOR, Completion(NO_REPLY))
    assert house.model.askings[0].on_text is None
    await whole_turn(house, "hello", "k2", run_id(2))
    assert house.model.askings[1].on_text is not None
    head = house.rows(messages.select().where(messages.c.role == "assistant").order_by(messages.c.id))[0].id
    flow = Flow(run_id=RUN, session_key="test:chat")
    assert await speak.speak(house.harness, flow, {"head": head}) == {"kind": "done"}


async def test_done_again_it_stays_quiet(house: House) -> None:
    house.model.answers = [Completion(NO_REPLY)]
    flow = await begin(house, "how does it stand?", "k1", origin=MONITOR, steers=False)
    await run_turn(DirectSteps(house), bodies_of(house.harness, flow), flow)
    head = await house.db.read(transcript.find_step, RUN, "think#0")
    request = {"key": "f", "head": head, "text": "", "state": "finished"}
    assert (await finish(house.harness, flow, request))["kind"] == "answered"
    assert states(house)[2] == [] and house.sender.of("agent.reply.ready") == []


def test_what_a_machine_says_names_the_way_to_be_quiet() -> None:
    for text in (supervise.ASK, supervise.RETRY, wakes.WOKEN):
        assert "{hint}" in text
    assert NO_REPLY in HINT and HINT in checklist.FOUND
