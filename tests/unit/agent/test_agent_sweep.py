"""The second net: what is open and unowned is woken, at most three times, and what is unsent is announced."""

from datetime import timedelta

from app.agent.heartbeat.sweep import send_unsent, sweep
from app.agent.heartbeat.unheard import AFTER as UNHEARD_AFTER
from app.agent.loop import run_turn
from app.agent.turn import bodies_of
from app.channels import outbox
from app.channels.channel import Later
from app.channels.delivery import deliver_next
from app.sentences import TRY_AGAIN, UNHEARD
from app.sessions import deposit, session, turns
from app.tables import deliveries, messages
from tests.unit.house import RUN, SESSION, DirectSteps, House, begin, message, run_id, whole_turn


def store(house: House, key: str = "k1", session_key: str = SESSION) -> None:
    with house.tx() as tx:
        event = message("hello", key, session_key=session_key)
        deposit.deposit(tx, event, key, new_session_id=f"S-{session_key}", now=house.clock.now())


async def woken(house: House, session_key: str | None = None) -> list[str]:
    """Ids of the start signals that one sweep sends."""
    before = len(house.sender.events)
    await sweep(house.harness, session_key)
    return [e["id"] for e in house.sender.events[before:] if e["name"] == "agent.message.received"]


async def test_a_message_younger_than_a_minute_is_left_alone(house: House) -> None:
    store(house)
    house.clock.advance(59)
    assert await woken(house) == []
    house.clock.advance(1)
    assert await woken(house) == ["k1:again-1"]


async def test_three_times_under_fresh_ids_then_never(house: House) -> None:
    store(house)
    found = []
    for _ in range(5):
        house.clock.advance(60)
        found += await woken(house)
    assert found == ["k1:again-1", "k1:again-2", "k1:again-3"]
    assert all(event["data"]["steers"] is False for event in house.sender.events)


async def test_whoever_nobody_got_to_answer_is_told_once_and_answered_with_what_is_said_next(house: House) -> None:
    store(house)
    for _ in range(190):
        house.clock.advance(60)
        await woken(house)
    (row,) = house.rows(deliveries.select())
    assert (row.kind, row.state, row.text) == ("notice", "pending", f"{UNHEARD} {TRY_AGAIN}")
    assert [row.state for row in house.rows(messages.select())] == ["open"]
    assert row.created_at - house.rows(messages.select())[0].created_at == UNHEARD_AFTER


async def test_who_is_worked_for_is_not_told_that_nobody_was_there(house: House) -> None:
    store(house)
    for _ in range(4):
        house.clock.advance(60)
        await woken(house)
    flow = await begin(house)
    for _ in range(230):
        house.clock.advance(50)
        with house.tx() as tx:
            session.claim(tx, flow.session_id, RUN, boot_id="home:boot1", now=house.clock.now())
        await woken(house)
    assert house.rows(deliveries.select()) == []


async def test_a_live_turn_owns_its_messages(house: House) -> None:
    """Row 13."""
    flow = await begin(house)
    for _ in range(4):
        house.clock.advance(50)
        with house.tx() as tx:
            session.claim(tx, flow.session_id, RUN, boot_id="home:boot1", now=house.clock.now())
        assert await woken(house) == []
    house.clock.advance(60)
    assert await woken(house) == ["test:1:again-1"]


async def test_a_turn_in_a_durable_wait_owns_its_messages(house: House) -> None:
    await begin(house)
    with house.tx() as tx:
        turns.wait_until(tx, RUN, house.clock.now() + timedelta(hours=1))
    house.clock.advance(3_599)
    assert await woken(house) == []
    house.clock.advance(1)
    assert await woken(house) == ["test:1:again-1"]


async def test_what_is_answered_failed_or_stopped_is_not_woken(house: House) -> None:
    """Row 14: no paid loop after a failure."""
    for number, state in enumerate(["answered", "failed", "stopped"]):
        store(house, f"k{number}", f"test:{number}")
        with house.tx() as tx:
            deposit.attach_open(tx, f"S-test:{number}")
            deposit.close_shown(tx, f"S-test:{number}", RUN, state)
    house.clock.advance(120)
    assert await woken(house) == []


async def test_a_closed_session_is_not_swept(house: House) -> None:
    store(house)
    with house.tx() as tx:
        session.close(tx, f"S-{SESSION}", house.clock.now())
    house.clock.advance(120)
    assert await woken(house) == []


async def test_one_session_or_all(house: House) -> None:
    store(house, "k1", "test:1")
    store(house, "k2", "test:2")
    house.clock.advance(60)
    assert await woken(house, "test:2") == ["k2:again-1"]
    assert sorted(await woken(house)) == ["k1:again-1", "k2:again-2"]


async def test_a_woken_message_is_answered(house: House) -> None:
    store(house)
    house.clock.advance(60)
    await sweep(house.harness)
    (signal,) = house.sender.events
    flow = await begin(house, "hello", signal["data"]["messageKey"], run_id(2), steers=False)
    assert flow.stop is None
    await run_turn(DirectSteps(house), bodies_of(house.harness, flow), flow)
    house.clock.advance(60)
    assert await woken(house) == [] and house.rows(messages.select())[0].state == "answered"


async def test_unsent_parts_are_announced_under_fresh_ids(house: House) -> None:
    """Row 6: cancelled between finish and its event."""
    house.sender.broken = True
    await whole_turn(house)
    house.sender.broken = False
    assert await sweep(house.harness) == {"woken": 0, "unsent": 1, "fired": 0, "at": house.clock.now().isoformat()}
    house.clock.advance(1)
    await sweep(house.harness, SESSION)
    assert (await sweep(house.harness, "test:other"))["unsent"] == 0
    one, two = house.sender.of("agent.reply.ready")
    assert one["id"] != two["id"] and one["data"] == two["data"]
    await deliver_next(house.db, house.harness.channels, house.clock, "home:boot1", "test:7")
    assert (await sweep(house.harness))["unsent"] == 0


async def test_a_part_that_waits_for_the_platform_is_still_unsent(house: House) -> None:
    await whole_turn(house)
    house.channel.results = [Later(60.0, "slow down")]
    await deliver_next(house.db, house.harness.channels, house.clock, "home:boot1", "test:7")
    assert (await sweep(house.harness))["unsent"] == 1


async def test_an_engine_that_is_away_costs_a_try_and_no_message(house: House) -> None:
    store(house)
    house.clock.advance(60)
    house.sender.broken = True
    assert (await sweep(house.harness))["woken"] == 1
    house.sender.broken = False
    assert await woken(house) == ["k1:again-2"]


async def test_at_the_start_what_was_stored_and_not_sent_is_sent(house: House) -> None:
    store(house, "k1")
    store(house, "k2", "test:2")
    await house.db.write(deposit.mark_event_sent, "k2", house.clock.now())
    assert await send_unsent(house.harness) == 1
    assert house.sender.ids() == ["k1:first"]
    assert await send_unsent(house.harness) == 0


async def test_a_part_whose_sender_vanished_is_taken_up_again(house: House) -> None:
    """The other service on this database died with it: it is not sent blindly, and it does not hold the chat up."""
    await whole_turn(house)
    gone = {"state": "sending", "boot_id": "other:1", "not_before": house.clock.now() + outbox.STUCK_AFTER}
    with house.tx() as tx:
        tx.execute(deliveries.update().values(gone))
    assert (await sweep(house.harness))["unsent"] == 0
    house.clock.advance(outbox.STUCK_AFTER.total_seconds())
    assert (await sweep(house.harness))["unsent"] == 1
