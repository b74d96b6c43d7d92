"""The night: what a machine has to tell waits for one summary in the morning, and a person who is up is answered."""

from datetime import UTC, datetime, time
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.agent.delegation.report import end_task
from app.agent.failure import tell_failure
from app.agent.finish import finish
from app.agent.flow import Flow
from app.agent.heartbeat.night import is_night, night_end
from app.agent.heartbeat.sweep import sweep
from app.agent.heartbeat.telling import MORNING, home_chat, tell
from app.agent.heartbeat.wakes import _input
from app.agent.think import think
from app.config import Settings
from app.sessions import people, tasks
from app.tables import deliveries, messages, notices, turns
from app.work import wakes
from tests.unit.house import RUN, SESSION, House, ask, begin, message, run_id

NIGHT = (time(23), time(6))


@pytest.mark.parametrize(
    ("moment", "zone", "quiet", "expected"),
    [
        (datetime(2026, 1, 5, 22, 59), "UTC", NIGHT, False),
        (datetime(2026, 1, 5, 23, 0), "UTC", NIGHT, True),
        (datetime(2026, 1, 6, 5, 59), "UTC", NIGHT, True),
        (datetime(2026, 1, 6, 6, 0), "UTC", NIGHT, False),
        (datetime(2026, 1, 6, 5, 0), "Europe/Paris", NIGHT, False),
        (datetime(2026, 1, 5, 22, 0), "Europe/Paris", NIGHT, True),
        (datetime(2026, 7, 5, 21, 0), "Europe/Paris", NIGHT, True),
        (datetime(2026, 1, 5, 13, 0), "UTC", (time(13), time(15)), True),
        (datetime(2026, 1, 5, 15, 0), "UTC", (time(13), time(15)), False),
        (datetime(2026, 1, 5, 3, 0), "UTC", None, False),
    ],
)
def test_when_it_is_night(moment: datetime, zone: str, quiet: tuple[time, time] | None, expected: bool) -> None:
    assert is_night(moment.replace(tzinfo=UTC), ZoneInfo(zone), quiet) is expected


@pytest.mark.parametrize(("text", "hours"), [("22:30-07:15", (time(22, 30), time(7, 15))), ("off", None)])
def test_the_hours_are_a_setting(text: str, hours: Any) -> None:
    assert Settings(_env_file=None, quiet_hours=text).quiet == hours


@pytest.mark.parametrize("text", ["night", "23-6-1", "25:00-06:00", "23:00"])
def test_other_hours_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="from-to such as 23:00-06:00, or off"):
        Settings(_env_file=None, quiet_hours=text)


def go_to(house: House, hour: int, day: int = 5) -> None:
    house.clock.advance((datetime(2026, 1, day, hour, tzinfo=UTC) - house.clock.now()).total_seconds())


def sent(house: House) -> list[str]:
    return [row.text for row in house.rows(deliveries.select().order_by(deliveries.c.id))]


async def answer(house: House, flow: Flow, text: str) -> None:
    """The whole of a turn that only speaks."""
    house.model.answers = [text]
    thought = await think(house.harness, flow, ask())
    await finish(house.harness, flow, {"key": "finish#1", "state": "finished", "text": "", "head": thought["head"]})


async def machine_turn(house: House, text: str, number: int, origin: str = "wake") -> None:
    flow = await begin(house, "woken", f"wake:w{number}:1", run_id(number), origin=origin, steers=False)
    await answer(house, flow, text)


async def test_answers_to_machines_wait_for_one_summary_in_the_morning(house: House) -> None:
    go_to(house, 23)
    await machine_turn(house, "The build is done.", 2)
    await machine_turn(house, "A file came.", 3, "the watcher")
    assert sent(house) == []
    assert [row.state for row in house.rows(turns.select())] == ["finished"] * 2
    go_to(house, 5, 6)
    await sweep(house.harness)
    assert sent(house) == []
    go_to(house, 6, 6)
    before = len(house.sender.of("agent.reply.ready"))
    await sweep(house.harness)
    await sweep(house.harness)
    assert sent(house) == [f"{MORNING}\n\nThe build is done.\n\nA file came."]
    assert len(house.sender.of("agent.reply.ready")) > before


async def test_a_person_who_is_up_is_answered_and_told(house: House) -> None:
    go_to(house, 23)
    await answer(house, await begin(house), "Hello.")
    house.clock.advance(60)
    await machine_turn(house, "And this came up.", 2)
    assert sent(house) == ["Hello.", "And this came up."]
    house.clock.advance(3600)
    await machine_turn(house, "Later.", 3)
    assert len(sent(house)) == 2 and len(house.rows(notices.select())) == 1


async def test_a_person_who_speaks_into_a_machines_turn_is_answered(house: House) -> None:
    go_to(house, 23)
    flow = await begin(house, "woken", "wake:w2:1", run_id(2), origin="wake", steers=False)
    await begin(house, "hello?", "test:9", run_id(1))  # deposited; the older run id does not take the turn over
    await answer(house, flow, "To both.")
    assert sent(house) == ["To both."]


async def test_a_wake_that_is_to_ring_rings(house: House) -> None:
    flow = await begin(house)
    now = house.clock.now()
    place: dict[str, Any] = {"channel": "test", "destination": {"chatId": "7"}, "reason": "get up", "zone": "UTC"}
    made = wakes.Wake(
        id="w7", session_id=flow.session_id, session_key=SESSION, run_id=RUN, step_key="tool#0.0",
        due_at=now, created_at=now, rings=True, **place,
    )  # fmt: skip
    with house.tx() as tx:
        tx.execute(messages.update().values(state="answered"))
        wakes.add(tx, made)
        after = wakes.fire(tx, made, now)
    assert after is not None
    go_to(house, 5, 6)
    event = _input(house.harness, made, after, now)
    woken = await begin(house, event.message, str(event.message_key), run_id(2), origin="wake", steers=False)
    await answer(house, woken, "Get up!")
    assert sent(house) == ["Get up!"]


async def test_what_is_critical_is_told_at_any_hour_and_everything_once(house: House) -> None:
    flow = await begin(house)
    go_to(house, 3, 6)
    chat = message()
    place = type("Place", (), {"channel": "test", "destination": chat.destination.model_dump()})()
    with house.tx() as tx:
        for _ in range(2):
            tell(tx, house.harness, "disk", flow.session_id, place, "The disk is full.", critical=True)
            assert tell(tx, house.harness, "goal", flow.session_id, place, "A goal failed.") == []
    assert sent(house) == ["The disk is full."]
    go_to(house, 7, 6)
    with house.tx() as tx:
        assert tell(tx, house.harness, "goal", flow.session_id, place, "A goal failed.") == []
    await sweep(house.harness)
    assert sent(house)[1:] == [f"{MORNING}\n\nA goal failed."]


async def test_a_turn_that_failed_is_told_at_night_only_to_who_asked(house: House) -> None:
    await begin(house)
    go_to(house, 2, 6)
    await tell_failure(house.harness, {"run_id": RUN, "error": {"message": "x"}})
    assert len(sent(house)) == 1 and RUN in sent(house)[0]
    await begin(house, "woken", "wake:w2:1", run_id(2), origin="wake", steers=False)
    for _ in range(2):
        assert (await tell_failure(house.harness, {"run_id": run_id(2), "error": {}}))["told"] is True
    assert len(sent(house)) == 1 and len(house.rows(notices.select())) == 1


async def test_the_end_of_a_task_of_a_closed_conversation_waits_too(house: House) -> None:
    flow = await begin(house)
    facts: dict[str, Any] = {"run_id": RUN, "step_key": "tool#0.0", "mode": "background", "task": "count"}
    with house.tx() as tx:
        tasks.add(tx, "t1", session_id=flow.session_id, model=None, due_at=None, now=house.clock.now(), **facts)
        tx.exec_driver_sql("UPDATE sessions SET closed_at = created_at")
        tx.exec_driver_sql("""UPDATE messages SET channel_meta = '{"languageCode": "de"}'""")
    go_to(house, 2, 6)
    with house.tx() as tx:
        assert end_task(tx, house.harness, "t1", "Twelve.", ok=True) is None
    (kept,) = house.rows(notices.select())
    assert kept.text == "Die Aufgabe t1 ist fertig.\nAufgabe: count\nErgebnis:\nTwelve." and sent(house) == []


def set_zone(house: House, zone: str) -> None:
    """Where the person of the conversation is in time, as the platform tells it."""
    with house.tx() as tx:
        row = tx.execute(messages.select().where(messages.c.origin == "person")).first()
        assert row is not None
        event = row.event | {"channelMeta": {"timezone": zone}, "sender": {"id": "7"}}
        tx.execute(messages.update().where(messages.c.id == row.id).values(event=event))


async def test_the_morning_is_that_of_whom_it_is_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is in UTC, the person in Tokyo: what comes in their night waits for their morning, not for ours."""
    monkeypatch.setattr(people, "OPERATORS", ())
    flow = await begin(house)
    set_zone(house, "Asia/Tokyo")
    place = SimpleNamespace(channel="test", destination={"chatId": "7"})
    for hour, day in ((15, 5), (20, 5)):  # midnight and five in the morning there
        go_to(house, hour, day)
        with house.tx() as tx:
            tell(tx, house.harness, f"news {hour}", flow.session_id, place, f"news {hour}")
        await sweep(house.harness)
        assert sent(house) == []
    go_to(house, 21)
    await sweep(house.harness)
    assert sent(house) == [f"{MORNING}\n\nnews 15\n\nnews 20"]
    go_to(house, 3, 6)  # night here, noon there
    with house.tx() as tx:
        tell(tx, house.harness, "noon", flow.session_id, place, "noon")
    assert sent(house)[1:] == ["noon"]


async def test_a_morning_in_which_the_service_was_away_does_not_come_at_night(house: House) -> None:
    flow = await begin(house)
    go_to(house, 3, 6)
    place = SimpleNamespace(channel="test", destination={"chatId": "7"})
    with house.tx() as tx:
        tell(tx, house.harness, "news", flow.session_id, place, "news")
    go_to(house, 23, 6)
    await sweep(house.harness)
    assert sent(house) == []
    go_to(house, 6, 7)
    await sweep(house.harness)
    await sweep(house.harness)
    assert sent(house) == [f"{MORNING}\n\nnews"]


@pytest.mark.parametrize(
    ("moment", "zone", "quiet", "end"),
    [
        (datetime(2026, 1, 5, 23, 0), "UTC", NIGHT, datetime(2026, 1, 6, 6, 0)),
        (datetime(2026, 1, 6, 5, 59), "UTC", NIGHT, datetime(2026, 1, 6, 6, 0)),
        (datetime(2026, 3, 28, 23, 0), "Europe/Paris", NIGHT, datetime(2026, 3, 29, 4, 0)),
        (datetime(2026, 1, 5, 13, 30), "UTC", (time(13), time(15)), datetime(2026, 1, 5, 15, 0)),
        (datetime(2026, 1, 5, 3, 0), "UTC", None, datetime(2026, 1, 5, 3, 0)),
    ],
)
def test_when_the_night_ends(moment: datetime, zone: str, quiet: tuple[time, time] | None, end: datetime) -> None:
    assert night_end(moment.replace(tzinfo=UTC), ZoneInfo(zone), quiet) == end.replace(tzinfo=UTC)


async def test_home_is_where_a_person_has_written_last(house: House) -> None:
    with house.tx() as tx:
        assert home_chat(tx, house.harness) is None
    await begin(house)
    await begin(house, "hi", "k2", run_id(2), session_key="test:other")
    await begin(house, "woken", "k3", run_id(3), origin="wake", steers=False)
    with house.tx() as tx:
        found = home_chat(tx, house.harness)
    assert found is not None and (found.session_key, found.channel) == ("test:other", "test")


async def test_one_chat_has_one_summary_whichever_messages_it_is_about(house: House) -> None:
    flow = await begin(house)
    house.clock.advance((datetime(2026, 1, 6, 3, tzinfo=UTC) - house.clock.now()).total_seconds())
    with house.tx() as tx:
        for number in (1, 2):
            place = SimpleNamespace(channel="test", destination={"chatId": "7", "messageId": str(number)})
            tell(tx, house.harness, f"k{number}", flow.session_id, place, f"news {number}")
    assert len(house.rows(notices.select())) == 2
    house.clock.advance(4 * 3_600)
    await sweep(house.harness)
    (row,) = house.rows(deliveries.select())
    assert row.text == f"{MORNING}\n\nnews 1\n\nnews 2"
