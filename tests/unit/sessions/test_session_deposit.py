"""The way in: an input is stored once, whoever brings it, and put into the transcript in order."""

import asyncio
from typing import Any

import pytest

from app.events import Attachment, Destination, MessageReceived, Sender
from app.sessions import deposit, session
from app.sessions.deposit import MAX_WAKES, Deposited
from app.tables import messages, sessions
from tests.unit.house import RUN, SESSION, House, message


async def put(house: House, text: str = "hello", key: str = "k1", **changes: Any) -> Deposited:
    async with house.db.write() as tx:
        event = message(text, key, **changes)
        return await deposit.deposit(tx, event, key, new_session_id=f"S-{key}", now=house.clock.now())


async def test_the_second_delivery_changes_nothing(house: House) -> None:
    first = await put(house, "one")
    again = await put(house, "something else")
    assert (first.fresh, again.fresh) == (True, False)
    assert (again.message_id, again.session_id) == (first.message_id, first.session_id)
    assert [row.text for row in await house.rows(messages.select())] == ["one"]


async def test_many_deliveries_at_once_store_one_message_in_one_session(house: House) -> None:
    stored = await asyncio.gather(*(put(house, key="same") for _ in range(8)))
    assert sum(d.fresh for d in stored) == 1 and len({d.message_id for d in stored}) == 1
    others = await asyncio.gather(*(put(house, key=f"k{n}") for n in range(8)))
    assert {d.session_id for d in others} == {stored[0].session_id}
    assert len(await house.rows(sessions.select())) == 1


async def test_another_process_that_stored_it_first_wins(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our look and our insert: the unique key decides, and the transaction goes on."""
    first = await put(house, "one", "k1")
    looks = iter([None])
    real = deposit._find

    async def blind_once(tx: Any, key: str) -> Any:
        return next(looks, await real(tx, key))

    monkeypatch.setattr(deposit, "_find", blind_once)
    again = await put(house, "two", "k1")
    assert (again.message_id, again.fresh) == (first.message_id, False)


async def test_another_process_that_opened_the_session_first_wins(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(house)
    looks = iter([None])
    real = session.find

    async def blind_once(tx: Any, key: str) -> Any:
        return next(looks, await real(tx, key))

    monkeypatch.setattr(session, "find", blind_once)
    async with house.db.write() as tx:
        assert await session.open_session(tx, SESSION, "other", house.clock.now()) == "S-k1"


async def test_equal_numbers_of_two_chats_are_two_messages(house: House) -> None:
    one = await put(house, key="telegram:1:7:42", session_key="telegram:7")
    two = await put(house, key="telegram:1:8:42", session_key="telegram:8")
    assert one.fresh and two.fresh and one.session_id != two.session_id


async def test_the_event_is_due_until_it_is_marked(house: House) -> None:
    assert (await put(house)).event_due
    assert (await put(house)).event_due
    await deposit.mark_event_sent(house.db, "k1", house.clock.now())
    assert not (await put(house)).event_due


async def test_what_is_stored_is_clean_and_complete(house: House) -> None:
    await put(
        house,
        "a\x00\ud800",
        sender=Sender(id="5", username="ann"),
        attachments=(Attachment(kind="photo", ref="f1", size=2**60),),
        channel_meta={"big": 2**60, "nan": float("nan")},
        origin="person",
        sent_at="2026-01-05T12:00:00Z",
    )
    (row,) = await house.rows(messages.select())
    assert (row.text, row.state, row.attached, row.wakes) == ("a?", "open", False, 0)
    assert row.data == {
        "sender": "ann",
        "attachments": [{"kind": "photo", "ref": "f1", "name": None, "mime": None, "size": str(2**60)}],
    }
    assert row.channel_meta == {"big": str(2**60), "nan": None}
    assert (row.channel, row.destination["chatId"], row.sent_at) == ("test", "7", "2026-01-05T12:00:00Z")
    assert MessageReceived.from_data(row.event).message == "a?"


async def test_attaching_keeps_the_order_of_arrival(house: House) -> None:
    ids = [(await put(house, str(n), f"k{n}")).message_id for n in range(4)]
    async with house.db.write() as tx:
        assert await deposit.unattached(tx, "S-k0") == ids
        assert await deposit.attach_open(tx, "S-k0") == ids[-1]
        assert await deposit.unattached(tx, "S-k0") == []
        assert await deposit.attach_open(tx, "S-k0") == ids[-1]
    parents = [row.parent_id for row in await house.rows(messages.select().order_by(messages.c.id))]
    assert parents == [None, *ids[:-1]]


async def test_an_empty_session_has_no_head(house: House) -> None:
    async with house.db.write() as tx:
        await session.open_session(tx, SESSION, "S", house.clock.now())
        assert await deposit.attach_open(tx, "S") is None


async def test_only_what_was_shown_is_closed(house: House) -> None:
    await put(house, "shown", "k1")
    async with house.db.write() as tx:
        await deposit.attach_open(tx, "S-k1")
    await put(house, "new", "k2")
    async with house.db.write() as tx:
        await deposit.close_shown(tx, "S-k1", RUN, "answered")
        assert [row.message_key for row in await deposit.open_inputs(tx, "S-k1")] == ["k2"]
    rows = await house.rows(messages.select().order_by(messages.c.id))
    assert [(row.state, row.answered_by) for row in rows] == [("answered", RUN), ("open", None)]


async def test_the_place_is_that_of_the_newest_input_shown(house: House) -> None:
    await put(house, key="k1", destination=Destination(chat_id="1"))
    await put(house, key="k2", destination=Destination(chat_id="2", thread_id="9"))
    async with house.db.write() as tx:
        assert await deposit.place_of(tx, "S-k1", RUN) is None
        await deposit.attach_open(tx, "S-k1")
    await put(house, key="k3", destination=Destination(chat_id="3"))
    async with house.db.write() as tx:
        place = await deposit.place_of(tx, "S-k1", RUN)
        assert place is not None and place.destination["chatId"] == "2" and place.destination["threadId"] == "9"
        await deposit.close_shown(tx, "S-k1", RUN, "answered")
        place = await deposit.place_of(tx, "S-k1", RUN)
        assert place is not None and place.destination["chatId"] == "2"
        newest = await deposit.last_place(tx, "S-k1")
        assert newest is not None and newest.destination["chatId"] == "3"
        assert await deposit.last_place(tx, "nowhere") is None


async def test_a_message_is_woken_three_times_under_fresh_ids_and_never_steers(house: House) -> None:
    await put(house, key="k1", steers=True)
    woken = []
    async with house.db.write() as tx:
        for _ in range(MAX_WAKES + 2):
            woken.append(await deposit.wake_next(tx, "S-k1"))
    signals = [event for event in woken if event is not None]
    assert [event["id"] for event in signals] == ["k1:again-1", "k1:again-2", "k1:again-3"]
    assert woken[MAX_WAKES:] == [None, None]
    for event in signals:
        assert (event["name"], event["data"]["steers"]) == ("agent.message.received", False)
        assert (event["data"]["messageKey"], event["data"]["sessionKey"]) == ("k1", SESSION)


async def test_the_newest_open_message_is_woken(house: House) -> None:
    await put(house, key="k1")
    await put(house, key="k2")
    async with house.db.write() as tx:
        event = await deposit.wake_next(tx, "S-k1")
        assert event is not None and event["data"]["messageKey"] == "k2"


@pytest.mark.parametrize("state", ["answered", "failed", "stopped"])
async def test_a_closed_message_is_not_woken(house: House, state: str) -> None:
    await put(house)
    async with house.db.write() as tx:
        await deposit.attach_open(tx, "S-k1")
        await deposit.close_shown(tx, "S-k1", RUN, state)
        assert await deposit.wake_next(tx, "S-k1") is None


async def test_an_event_without_a_key_of_its_own_gets_the_one_it_is_stored_under(house: House) -> None:
    async with house.db.write() as tx:
        await deposit.deposit(tx, message(key=None), "event:e1", new_session_id="S", now=house.clock.now())
        event = await deposit.wake_next(tx, "S")
    assert event is not None and event["data"]["messageKey"] == "event:e1"
