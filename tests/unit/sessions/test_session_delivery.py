"""Sending one part: claimed before, receipted after, whatever happens in between."""

import asyncio
from typing import Any

import pytest

from app.channels import delivery, outbox
from app.channels.channel import Absent, Later, Refused, SendResult, Sent, Unknown
from app.channels.delivery import deliver_next
from app.channels.outbox import SETTLES_IN, STUCK_AFTER
from app.events import Destination
from app.sentences import UNKNOWN_NOTICE
from app.sessions import session
from app.tables import deliveries
from tests.unit.house import RUN, SESSION, House

CHAT = "test:7"


@pytest.fixture(autouse=True)
async def two_parts(house: House) -> None:
    await put(house, "r1", "a", "b")


async def put(house: House, key: str, *texts: str, channel: str = "test") -> None:
    with house.tx() as tx:
        session.open_session(tx, SESSION, "S", house.clock.now())
        outbox.put(
            tx,
            key,
            session_id="S",
            run_id=RUN,
            kind="reply",
            channel=channel,
            destination=Destination(chat_id="7"),
            parts=[{"text": text} for text in texts],
            text="text",
            now=house.clock.now(),
        )


async def deliver(house: House, chat: str = CHAT) -> dict[str, Any]:
    harness = house.harness
    return await deliver_next(house.db, harness.channels, house.clock, harness.boot_id, chat)


async def states(house: House) -> list[str]:
    return [row.state for row in house.rows(deliveries.select().order_by(deliveries.c.id))]


async def test_one_part_at_a_time_until_all_are_sent(house: House) -> None:
    assert [(await deliver(house))["kind"] for _ in range(3)] == ["sent", "done", "done"]
    assert house.channel.sent == ["a", "b"]
    (row, _) = house.rows(deliveries.select().order_by(deliveries.c.id))
    assert row.receipt == {"id": 0} and row.sent_at is not None


async def test_a_wait_names_its_end(house: House) -> None:
    house.channel.results = [Later(37.0, "slow down")]
    waiting = await deliver(house)
    assert waiting == {"kind": "wait", "until": "2026-01-05T12:00:37+00:00"}
    assert await deliver(house) == waiting
    house.clock.advance(37)
    await deliver(house)
    await deliver(house)
    assert house.channel.sent == ["a", "b"]


async def test_a_refused_part_does_not_hold_up_the_next(house: House) -> None:
    house.channel.results = [Refused("malformed")]
    assert (await deliver(house))["kind"] == "sent"
    assert (await deliver(house))["kind"] == "done"
    assert house.channel.sent == ["b"] and await states(house) == ["failed", "sent"]


async def test_an_unknown_part_is_told_behind_the_rest(house: House) -> None:
    house.channel.results = [Unknown("no answer")]
    while (await deliver(house))["kind"] != "done":
        pass
    assert house.channel.sent == ["b", UNKNOWN_NOTICE]
    assert await states(house) == ["unknown", "sent", "sent"]


async def test_a_part_waits_for_a_channel_that_is_not_there(house: House) -> None:
    await put(house, "r2", "c", channel="gone")
    assert (await deliver(house, "gone:7"))["kind"] == "wait"
    (*_, row) = house.rows(deliveries.select().order_by(deliveries.c.id))
    assert (row.state, row.reason) == ("pending", "the channel gone is not configured")


async def test_many_runs_at_once_send_each_part_once_and_in_order(house: House) -> None:
    async def sender() -> None:
        while (answer := await deliver(house))["kind"] == "sent":
            pass
        assert answer["kind"] in ("wait", "done")

    await asyncio.gather(*(sender() for _ in range(5)))
    while (await deliver(house))["kind"] != "done":
        pass
    assert house.channel.sent == ["a", "b"]


async def test_killed_between_the_claim_and_the_request(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await _die(house, monkeypatch, "send.claimed")
    assert house.channel.sent == []
    await _restart(house)
    assert (await deliver(house))["kind"] == "sent"
    assert await states(house) == ["unknown", "pending", "pending"]


async def test_killed_between_the_request_and_the_receipt(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await _die(house, monkeypatch, "send.accepted")
    assert house.channel.sent == ["a"]
    await _restart(house)
    while (await deliver(house))["kind"] != "done":
        pass
    assert house.channel.sent == ["a", "b", UNKNOWN_NOTICE]


async def test_killed_behind_the_receipt(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await _die(house, monkeypatch, "send.recorded")
    await _restart(house)
    while (await deliver(house))["kind"] != "done":
        pass
    assert house.channel.sent == ["a", "b"]


async def test_without_a_restart_a_lost_sender_is_waited_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await _die(house, monkeypatch, "send.accepted")
    assert (await deliver(house))["kind"] == "wait"
    house.clock.advance(STUCK_AFTER.total_seconds())
    assert [(await deliver(house))["kind"] for _ in range(3)] == ["sent", "sent", "done"]
    assert house.channel.sent == ["a", "b", UNKNOWN_NOTICE]


async def test_a_platform_that_has_the_part_settles_the_doubt(house: House) -> None:
    house.channel.results = [Unknown("no answer")]
    house.channel.found = [Sent({"id": 7})]
    while (await deliver(house))["kind"] != "done":
        pass
    (row, _) = house.rows(deliveries.select().order_by(deliveries.c.id))
    assert (row.state, row.receipt) == ("sent", {"id": 7}) and house.channel.sent == ["b"]


async def test_a_part_that_is_not_there_at_once_may_still_be_under_way(house: House) -> None:
    """Only when it is not there later either is it sent again; what stands behind it waits."""
    house.channel.results = [Unknown("no answer")]
    house.channel.found = [Absent(), Absent()]
    waiting = await deliver(house)
    assert waiting["kind"] == "wait" and await deliver(house) == waiting
    house.clock.advance(SETTLES_IN.total_seconds())
    while (await deliver(house))["kind"] != "done":
        pass
    assert house.channel.sent == ["a", "b"] and await states(house) == ["sent", "sent"]


async def test_a_platform_that_is_away_is_asked_again(house: House) -> None:
    house.channel.results = [Unknown("no answer")]
    house.channel.found = [Later(60.0, "away"), Later(60.0, "away"), Sent({"id": 7})]
    for _ in range(2):
        assert (await deliver(house))["kind"] == "wait"
        house.clock.advance(60)
    while (await deliver(house))["kind"] != "done":
        pass
    assert house.channel.sent == ["b"] and await states(house) == ["sent", "sent"]


async def _die(house: House, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    def die(name: str) -> None:
        if name == point:
            raise SystemExit

    monkeypatch.setattr(delivery, "reach", die)
    with pytest.raises(SystemExit):
        await deliver(house)
    monkeypatch.undo()


async def _restart(house: House) -> None:
    with house.tx() as tx:
        outbox.close_dead(tx, "home", "home:boot2", house.clock.now())
    house.clock.advance(SETTLES_IN.total_seconds())


@pytest.mark.parametrize("result", [Sent({}), Later(1.0, "x"), Refused("x"), Unknown("x")])
async def test_every_result_leaves_the_part_out_of_the_hands_of_the_sender(house: House, result: SendResult) -> None:
    house.channel.results = [result]
    await deliver(house)
    assert "sending" not in await states(house)
