"""Wakes: set by a person's turn, fired once as an input that steers nobody, late after an absence, never in a burst."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from app.agent.act import act
from app.agent.flow import Flow
from app.agent.heartbeat.sweep import send_unsent, sweep
from app.agent.heartbeat.wakes import MACHINE, MAX_OPEN, fire_due
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.agent.think import think
from app.agent.tool import Toolbox
from app.events import MessageReceived, ReplyReady, TurnEnded, WakeDue
from app.sessions import session
from app.tables import calls as call_rows
from app.tables import messages, turns, wakes
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import SESSION, House, ask, begin, kill_at, make_house, message, run_id, wishes
from tools.wakes import cancel_wake, list_wakes, schedule_wake

TOOLS = Toolbox.of(schedule_wake, list_wakes, cancel_wake)
LATER = {"after": "2h", "reason": "look at the oven"}


@pytest.fixture
async def home(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "home", template)
    built = replace(built, harness=replace(built.harness, toolbox=TOOLS))
    yield built
    await built.db.close()


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, toolbox=TOOLS, heartbeat_cron="0 0 1 1 *") as one:
        yield one


async def call(house: House, tool: str, flow: Flow | None = None, number: int = 0, **given: Any) -> str:
    """What the model is told of one call in a turn."""
    house.model.answers = [wishes((tool, given))]
    flow = flow or await begin(house)
    await think(house.harness, flow, ask(number))
    await act(house.harness, flow, {"key": f"tool#{number}.0", "name": tool})
    row = house.rows(call_rows.select().order_by(call_rows.c.id.desc()))[0]
    return str(row.result)


def rows(house: House) -> list[Any]:
    return house.rows(wakes.select().order_by(wakes.c.created_at, wakes.c.id))


def inputs(house: House) -> list[Any]:
    return house.rows(messages.select().where(messages.c.origin == "wake").order_by(messages.c.id))


async def test_it_is_a_row_and_a_signal_for_later_that_starts_no_turn(home: House) -> None:
    said = await call(home, "schedule_wake", **LATER)
    (row,) = rows(home)
    assert said.startswith(f"Wake {row.id} is set: at 2026-01-05 14:00.")
    (event,) = [event for event in home.sender.events if "ts" in event]
    assert event["name"] == "agent.wake.due" and event["data"] == {"sessionKey": SESSION, "wakeId": row.id}
    assert event["ts"] == (home.clock.now() + timedelta(hours=2)).timestamp() * 1000
    assert (row.state, row.signalled, row.channel, row.destination["chatId"]) == ("open", True, "test", "7")


@pytest.mark.parametrize("event", [MessageReceived, ReplyReady, TurnEnded])
def test_no_other_event_can_be_sent_for_later(event: Any) -> None:
    made = message() if event is MessageReceived else event.model_construct(session_key="s", turn_id="t")
    with pytest.raises(ValueError, match="must not be sent for a later time"):
        made.to_wire("id", ts=1)
    assert WakeDue(session_key="s", wake_id="w").to_wire("id", ts=1)["ts"] == 1


async def test_attempted_again_it_is_the_same_wake(home: House) -> None:
    flow = await begin(home)
    await call(home, "schedule_wake", flow, **LATER)
    with home.tx() as tx:  # the process died between the wake and the end of its call
        tx.execute(call_rows.update().values(state="planned", result=None))
    await act(home.harness, flow, {"key": "tool#0.0", "name": "schedule_wake"})
    assert len(rows(home)) == 1 and len(home.sender.of("agent.wake.due")) == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "Give one of at, after and cron; given: none"),
        ({"at": "2026-01-06T09:00", "after": "2h"}, "given: at, after"),
        ({"at": "2026-01-05T11:59"}, "in the past"),
        ({"at": "yesterday"}, "accepted: a time such as 2026-12-24T18:00 .UTC."),
        ({"at": "+2h"}, "accepted: a time such as"),
        ({"after": "soon"}, "accepted: 90m, 2h or 3d"),
        ({"after": "0m"}, "less than a minute"),
        ({"after": "400d"}, "more than a year"),
        ({"cron": "* * * * *"}, "too often"),
        ({"at": "2026-01-06T09:00", "zone": "Mars"}, "not a time zone"),
    ],
)
async def test_what_is_refused_says_what_is_accepted(home: House, given: dict[str, Any], reason: str) -> None:
    said = await call(home, "schedule_wake", reason="x", **given)
    assert rows(home) == []
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(said)


async def test_local_time_is_that_of_the_zone(home: House) -> None:
    await call(home, "schedule_wake", reason="x", at="2026-01-06T09:00", zone="Europe/Paris")
    assert rows(home)[0].due_at.hour == 8


async def test_only_so_many_may_be_open(home: House) -> None:
    flow = await begin(home)
    for number in range(MAX_OPEN):
        await call(home, "schedule_wake", flow, number, **LATER)
    assert f"There are {MAX_OPEN} open wakes" in await call(home, "schedule_wake", flow, MAX_OPEN, **LATER)
    assert len(rows(home)) == MAX_OPEN


async def test_they_are_listed_and_cancelled_by_their_own_conversation(home: House) -> None:
    flow = await begin(home)
    await call(home, "schedule_wake", flow, **LATER)
    await call(home, "schedule_wake", flow, 1, cron="0 9 * * *", reason="the news")
    first, second = sorted(rows(home), key=lambda row: row.due_at)
    assert (await call(home, "list_wakes", flow, 2)).splitlines() == [
        f"{first.id} at 2026-01-05 14:00: look at the oven",
        f"{second.id} at 2026-01-06 09:00, and then by 0 9 * * * (UTC): the news",
    ]
    other = await begin(home, "hi", "other:1", run_id(5), session_key="test:other")
    assert "no open wake" in await call(home, "cancel_wake", other, wake_id=first.id)
    assert await call(home, "cancel_wake", flow, 3, wake_id=first.id) == f"Cancelled {first.id}."
    home.clock.advance(3 * 3600)
    await sweep(home.harness)
    assert inputs(home) == []


async def test_due_it_is_an_input_of_its_session_that_steers_nobody(home: House) -> None:
    await call(home, "schedule_wake", **LATER)
    home.clock.advance(2 * 3600 + 1)
    assert (await sweep(home.harness))["fired"] == 1
    (row,) = inputs(home)
    assert "look at the oven" in row.text and "It does not come again." in row.text and "only now" not in row.text
    start = home.sender.of("agent.message.received")[-1]
    assert start["data"]["steers"] is False and start["data"]["origin"] == "wake" and "ts" not in start
    assert (rows(home)[0].state, rows(home)[0].fired) == ("done", 1)
    assert (await sweep(home.harness))["fired"] == 0


async def test_two_beats_at_once_fire_it_once(home: House) -> None:
    from app.agent.heartbeat import wakes as waking
    from app.work import wakes as records

    await call(home, "schedule_wake", **LATER)
    home.clock.advance(2 * 3600)
    with home.tx() as tx:
        due = records.due(tx, home.clock.now())
        assert len(waking._fire(tx, home.harness, due, home.clock.now())) == 1
        assert waking._fire(tx, home.harness, due, home.clock.now()) == []
    assert len(inputs(home)) == 1


async def test_killed_before_its_start_signal_it_is_sent_at_the_next_start(home: House) -> None:
    await call(home, "schedule_wake", **LATER)
    home.clock.advance(2 * 3600)
    with kill_at("wake.committed"):
        await fire_due(home.harness)
    assert home.sender.of("agent.message.received") == []
    assert await send_unsent(home.rebooted().harness) == 1
    assert home.sender.of("agent.message.received")[0]["data"]["steers"] is False


async def test_after_an_absence_one_late_firing_and_no_burst(home: House) -> None:
    await call(home, "schedule_wake", cron="0 * * * *", reason="the tide")
    home.clock.advance(50 * 3600 + 600)
    await sweep(home.rebooted().harness)
    await sweep(home.rebooted().harness)
    (row,) = inputs(home)
    assert "due at 2026-01-05 13:00; it comes only now, because the service was away" in row.text
    assert "what fell in between is left out" in row.text and "next at 2026-01-07 15:00" in row.text
    assert rows(home)[0].due_at.hour == 15


async def test_a_signal_that_the_engine_did_not_take_is_sent_on_a_later_beat(home: House) -> None:
    flow = await begin(home)
    home.sender.broken = True
    await call(home, "schedule_wake", flow, **LATER)
    assert rows(home)[0].signalled is False
    home.sender.broken = False
    await sweep(home.harness)
    assert len(home.sender.of("agent.wake.due")) == 1 and rows(home)[0].signalled is True
    await sweep(home.harness)
    assert len(home.sender.of("agent.wake.due")) == 1


async def test_the_engine_is_told_of_what_is_far_off_when_it_comes_near(home: House) -> None:
    """Engines keep an event for a week at most on some plans."""
    await call(home, "schedule_wake", reason="x", after="30d")
    assert home.sender.of("agent.wake.due") == []
    home.clock.advance(25 * 86_400)
    await sweep(home.harness)
    assert len(home.sender.of("agent.wake.due")) == 1


async def machine(house: House, origin: str = "wake", key: str = "k9") -> Flow:
    return await begin(house, "woken", key, run_id(9), origin=origin, steers=False)


@pytest.mark.parametrize("origin", ["wake", "a background task", "the watcher", "heartbeat"])
async def test_a_turn_of_a_machine_sets_none(home: House, origin: str) -> None:
    """A reminder is read as a user message and schedules more reminders."""
    flow = await machine(home, origin, "wake:w0:1")
    assert await call(home, "schedule_wake", flow, **LATER) == MACHINE and rows(home) == []


async def test_where_it_is_allowed_a_wake_sets_one_in_its_place_and_no_endless_row(home: House) -> None:
    settings = home.harness.settings.model_copy(update={"wake_chain": 2})
    home = replace(home, harness=replace(home.harness, settings=settings))
    first = await begin(home)
    await call(home, "schedule_wake", first, **LATER)
    said = []
    for number in range(3):
        with home.tx() as tx:
            tx.execute(messages.update().where(messages.c.state == "open").values(state="answered"))
            tx.execute(turns.update().values(state="finished"))
        home.clock.advance(2 * 3600 + 1)
        await sweep(home.harness)
        key = inputs(home)[-1].message_key
        flow = await begin(home, "", key, run_id(20 + number), origin="wake")
        said.append(await call(home, "schedule_wake", flow, **LATER))
        if number == 0:
            assert await call(home, "schedule_wake", flow, 1, **LATER) == MACHINE
    assert ["is set" in text for text in said] == [True, True, False] and "last of 2 wakes" in said[2]
    assert [row.chain for row in rows(home)] == [0, 1, 2]


async def test_it_reaches_the_open_session_of_its_chat(home: House) -> None:
    """After /new a reminder is still wanted; a result would stay with the old conversation, a reason stands alone."""
    flow = await begin(home)
    await call(home, "schedule_wake", flow, **LATER)
    with home.tx() as tx:
        session.stop(tx, flow.session_id, home.clock.now())
        session.close(tx, flow.session_id, home.clock.now())
        session.open_session(tx, SESSION, "NEW", home.clock.now())
    home.clock.advance(2 * 3600)
    await sweep(home.harness)
    assert inputs(home)[0].session_id == "NEW"


async def test_the_engine_keeps_the_signal_and_the_turn_knows_why_it_was_woken(life: Embedded) -> None:
    life.house.model.answers = [wishes(("schedule_wake", LATER)), Completion("I will."), Completion("The oven!")]
    await life.send(message())
    await life.pass_time(2 * 3600 - 60, 600)
    assert life.house.channel.sent == ["I will."] and len(await life.runs("handle-message")) == 1
    await life.pass_time(120, 30)
    assert life.house.channel.sent == ["I will.", "The oven!"]
    assert "look at the oven" in str(life.house.model.requests[-1][1][-1])
    turn = life.house.rows(turns.select().order_by(turns.c.run_id))[-1]
    assert turn.origin == "wake"
    beats = await life.runs("heartbeat")
    assert [beat.event_name for beat in beats].count("agent.wake.due") == 1


async def test_due_while_a_person_is_talking_nobody_is_cancelled(life: Embedded) -> None:
    """Row 20: the live turn reads it before it finishes."""
    busy = ModelFailure(Trouble.OVERLOADED, "busy", 3600.0)
    life.house.model.answers = [wishes(("schedule_wake", LATER)), Completion("I will."), busy, Completion("Both.")]
    await life.send(message("one", "k1"))
    await life.pass_time(2 * 3600 - 600, 600)
    await life.send(message("two", "k2"))
    await life.pass_time(4200, 300)
    assert life.house.channel.sent == ["I will.", "Both."]
    shown = str(life.house.model.requests[-1][1])
    assert "two" in shown and "look at the oven" in shown
    assert [run.status for run in await life.runs("handle-message")] == ["Completed"] * 3


async def test_a_signal_of_one_that_is_gone_fires_nothing(life: Embedded) -> None:
    life.house.model.answers = [
        wishes(("schedule_wake", LATER)),
        Completion("I will."),
        wishes(("list_wakes", {})),
        Completion("Cancelled."),
    ]
    await life.send(message("one", "k1"))
    wake = rows(life.house)[0].id
    life.house.model.answers = [wishes(("cancel_wake", {"wake_id": wake})), Completion("Cancelled.")]
    await life.send(message("two", "k2"))
    await life.pass_time(3 * 3600, 600)
    assert life.house.channel.sent == ["I will.", "Cancelled."] and len(await life.runs("heartbeat")) == 3


async def test_after_an_absence_of_the_whole_service_it_fires_once(life: Embedded) -> None:
    life.house.model.answers = [wishes(("schedule_wake", LATER)), Completion("I will."), Completion("The oven!")]
    await life.send(message())
    await life.restart(meanwhile=lambda: life.clock.advance(30 * 3600))
    await life.pass_time(120, 30)
    assert life.house.channel.sent == ["I will.", "The oven!"]
    assert "it comes only now" in str(life.house.model.requests[-1][1][-1])
