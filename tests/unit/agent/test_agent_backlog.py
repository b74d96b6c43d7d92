"""Days of messages: taken up once a session, the oldest marked; what is over a day old is asked about first."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.agent.accept import accept
from app.agent.heartbeat.sweep import send_unsent
from app.agent.loop import OFFER, run_turn
from app.agent.models.llm import Completion
from app.agent.turn import bodies_of
from app.events import Destination
from app.sessions.deposit import deposit
from app.tables import deliveries, messages
from app.tables import turns as turn_rows
from tests.unit.core.embedded import embedded
from tests.unit.house import SESSION, DirectSteps, House, begin, message, run_id, whole_turn

COUNT = 200
START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def sent(hours_ago: float, now: datetime = START) -> str:
    return (now - timedelta(hours=hours_ago)).isoformat()


def reply(house: House) -> str:
    return str(house.rows(deliveries.select().order_by(deliveries.c.id.desc()))[0].text)


async def turn_with(house: House, text: str, key: str, number: int, **changes: Any) -> None:
    with house.tx() as tx:
        deposit(tx, message(text, key, **changes), key, new_session_id="S", now=house.clock.now())
    await whole_turn(house, text, key, run_id(number))


async def test_older_than_a_day_is_asked_about_and_no_model_is(house: House) -> None:
    await turn_with(house, "book the train", "k1", 1, sent_at=sent(25))
    assert reply(house) == (
        'While I was away, this came in: "book the train" (sent on 2026-01-04 11:00). '
        'Should I still answer it? Say "yes" if I should.'
    )
    assert house.model.requests == []
    assert [row.state for row in house.rows(turn_rows.select())] == ["offered"]


async def test_after_the_yes_the_model_sees_what_it_is_about(house: House) -> None:
    await turn_with(house, "book the train", "k1", 1, sent_at=sent(25))
    house.model.answers = [Completion("Booked.")]
    await turn_with(house, "yes", "k2", 2)
    shown = [str(m["content"]) for m in house.model.requests[-1][1][1:]]
    assert shown[0] == "[Sent on 2026-01-04 11:00; it could not be read before now.]\nbook the train"
    assert "Should I still answer it?" in shown[1] and shown[2] == "yes" and reply(house) == "Booked."


@pytest.mark.parametrize("hours", [0, 0.9, 23.9])
async def test_younger_ones_are_answered(house: House, hours: float) -> None:
    await turn_with(house, "book the train", "k1", 1, sent_at=sent(hours))
    assert reply(house) == "Hello."
    assert ("[Sent on" in str(house.model.requests[-1][1])) is (hours > 1)


async def test_who_has_just_written_is_not_asked_and_the_oldest_is_marked(house: House) -> None:
    with house.tx() as tx:
        for number in range(3):
            key = f"old{number}"
            event = message(f"old {number}", key, sent_at=sent(48 - number))
            deposit(tx, event, key, new_session_id="S", now=house.clock.now())
    await turn_with(house, "and now", "k1", 1, sent_at=sent(0))
    (shown,) = [m["content"] for m in house.model.requests[-1][1][1:]]
    assert shown == "[Sent on 2026-01-03 12:00; it could not be read before now.]\nold 0\n\nold 1\n\nold 2\n\nand now"
    assert reply(house) == "Hello."


@pytest.mark.parametrize("sent_at", [None, "nonsense", "2030-01-01T00:00:00+00:00"])
async def test_without_a_time_of_the_platform_ours_counts(house: House, sent_at: str | None) -> None:
    with house.tx() as tx:
        deposit(tx, message(sent_at=sent_at), "test:1", new_session_id="S", now=house.clock.now())
    house.clock.advance(timedelta(hours=25).total_seconds())
    await whole_turn(house)
    assert "Should I still answer it?" in reply(house)


async def test_what_a_machine_says_is_not_asked_about(house: House) -> None:
    await turn_with(house, "a file came", "k1", 1, sent_at=sent(48), origin="the watcher", steers=False)
    assert reply(house) == "Hello."


async def test_attempted_again_it_is_marked_once(house: House) -> None:
    with house.tx() as tx:
        deposit(tx, message(sent_at=sent(2)), "test:1", new_session_id="S", now=house.clock.now())
    first = await begin(house)
    assert await begin(house.rebooted()) == first
    (row,) = house.rows(messages.select())
    assert len(row.data["marks"]) == 1


async def test_a_turn_interrupted_over_ten_minutes_ago_is_offered(house: House) -> None:
    flow = await begin(house)
    house.clock.advance(601)
    again = house.rebooted()
    await run_turn(DirectSteps(again), bodies_of(again.harness, flow), flow)
    assert reply(house) == OFFER and house.model.requests == []
    house.model.answers = [Completion("Going on.")]
    await turn_with(again, "go on", "k2", 2)
    shown = [m["content"] for m in house.model.requests[-1][1][1:]]
    assert shown == ["hello", OFFER, "go on"] and reply(house) == "Going on."


async def test_interrupted_less_long_ago_it_goes_on(house: House) -> None:
    flow = await begin(house)
    house.clock.advance(599)
    again = await begin(house.rebooted())
    assert again.stop is None and flow.session_key == SESSION


@pytest.mark.parametrize("lossy", [False, True], ids=["all starts", "starts are lost"])
@pytest.mark.parametrize("hours", [2, 40])
async def test_two_hundred_queued_updates_are_one_turn_of_their_session(
    tmp_path: Path, template: Path, clean_environment: None, hours: int, lossy: bool
) -> None:
    """Row 24: days offline, then everything at once; three chats, one answer (or question) each."""
    async with embedded(tmp_path / "house", template, lossy=lossy) as life:
        now = life.clock.now()
        with life.house.tx() as tx:
            for n in range(COUNT):
                event = message(
                    f"line {n}",
                    f"test:{n}",
                    session_key=f"test:{n % 3}",
                    destination=Destination(chat_id=str(n % 3)),
                    sent_at=sent(hours, now),
                )
                deposit(tx, event, f"test:{n}", new_session_id=f"S{n}", now=now)
        await send_unsent(life.house.harness)
        await life.link.engine.idle()
        await life.pass_time(62, 62)
        assert {row.state for row in life.house.rows(messages.select()) if row.role == "user"} == {"answered"}
        answered = {row.answered_by for row in life.house.rows(messages.select()) if row.role == "user"}
        assert len(answered) == len(life.house.channel.sent) == 3
        assert len(life.house.model.requests) == (0 if hours == 40 else 3)
        assert all(("Should I still" in text) is (hours == 40) for text in life.house.channel.sent)
        marked = [row for row in life.house.rows(messages.select()) if row.data.get("marks")]
        assert sorted(row.message_key for row in marked) == ["test:0", "test:1", "test:2"]


@pytest.mark.parametrize(("minutes", "steers"), [(0, True), (9, True), (11, False)])
async def test_what_was_sent_long_ago_steers_nobody(house: House, minutes: float, steers: bool) -> None:
    """Two hundred messages of a weekend that come in one after the other are not two hundred turns."""
    await accept(house.harness, message(sent_at=sent(minutes / 60)))
    assert [event["data"]["steers"] for event in house.sender.events] == [steers]
