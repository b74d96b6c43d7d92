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
    with house.tx() as tx:
        event = message(text, key, **changes)
        return deposit.deposit(tx, event, key, new_session_id=f"S-{key}", now=house.clock.now())


async def test_the_second_delivery_changes_nothing(house: House) -> None:
    first = await put(house, "one")
    again = await put(house, "something else")
    assert (first.fresh, again.fresh) == (True, False)
    assert (again.message_id, again.session_id) == (first.message_id, first.session_id)
    assert [row.text for row in house.rows(messages.select())] == ["one"]


async def test_many_deliveries_at_once_store_one_message_in_one_session(house: House) -> None:
    """Through two doors to one file, as two processes would."""
    other = house.other_door()
    doors = [house.db, other] * 4
    now = house.clock.now()
    stored = await asyncio.gather(
        *(
            door.write(deposit.deposit, message(key="same"), "same", new_session_id=f"S{n}", now=now)
            for n, door in enumerate(doors)
        )
    )
    assert sum(d.fresh for d in stored) == 1 and len({d.message_id for d in stored}) == 1
    more = await asyncio.gather(
        *(
            door.write(deposit.deposit, message(key=f"k{n}"), f"k{n}", new_session_id=f"T{n}", now=now)
            for n, door in enumerate(doors)
        )
    )
    assert {d.session_id for d in more} == {stored[0].session_id}
    assert len(house.rows(sessions.select())) == 1
    await other.close()


async def test_another_process_that_stored_it_first_wins(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our look and our insert: the unique key decides, and the transaction goes on."""
    first = await put(house, "one", "k1")
    looks = iter([None])
    real = deposit._find
    monkeypatch.setattr(deposit, "_find", lambda tx, key: next(looks, real(tx, key)))
    again = await put(house, "two", "k1")
    assert (again.message_id, again.fresh) == (first.message_id, False)
    assert [row.text for row in house.rows(messages.select())] == ["one"]


async def test_another_process_that_opened_the_session_first_wins(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(house)
    looks = iter([None])
    real = session.find
    monkeypatch.setattr(session, "find", lambda tx, key: next(looks, real(tx, key)))
    with house.tx() as tx:
        assert session.open_session(tx, SESSION, "other", house.clock.now()) == "S-k1"


async def test_equal_numbers_of_two_chats_are_two_messages(house: House) -> None:
    one = await put(house, key="telegram:1:7:42", session_key="telegram:7")
    two = await put(house, key="telegram:1:8:42", session_key="telegram:8")
    assert one.fresh and two.fresh and one.session_id != two.session_id


async def test_the_event_is_due_until_it_is_marked(house: House) -> None:
    assert (await put(house)).event_due
    assert (await put(house)).event_due
    await house.db.write(deposit.mark_event_sent, "k1", house.clock.now())
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
    (row,) = house.rows(messages.select())
    assert (row.text, row.state, row.attached, row.wakes) == ("a?", "open", False, 0)
    assert row.data == {
        "sender": "ann",
        "attachments": [{"kind": "photo", "ref": "f1", "size": str(2**60)}],
    }
    assert row.channel_meta == {"big": str(2**60), "nan": None}
    assert (row.channel, row.destination["chatId"], row.sent_at) == ("test", "7", "2026-01-05T12:00:00Z")
    assert MessageReceived.from_data(row.event).message == "a?"


async def test_attaching_keeps_the_order_of_arrival(house: House) -> None:
    ids = [(await put(house, str(n), f"k{n}")).message_id for n in range(4)]
    with house.tx() as tx:
        assert deposit.unattached(tx, "S-k0") == ids
        assert deposit.attach_open(tx, "S-k0") == ids[-1]
        assert deposit.unattached(tx, "S-k0") == []
        assert deposit.attach_open(tx, "S-k0") == ids[-1]
    parents = [row.parent_id for row in house.rows(messages.select().order_by(messages.c.id))]
    assert parents == [None, *ids[:-1]]


async def test_an_empty_session_has_no_head(house: House) -> None:
    with house.tx() as tx:
        session.open_session(tx, SESSION, "S", house.clock.now())
        assert deposit.attach_open(tx, "S") is None


async def test_only_what_was_shown_is_closed(house: House) -> None:
    await put(house, "shown", "k1")
    with house.tx() as tx:
        deposit.attach_open(tx, "S-k1")
    await put(house, "new", "k2")
    with house.tx() as tx:
        deposit.close_shown(tx, "S-k1", RUN, "answered")
        assert [row.message_key for row in deposit.open_inputs(tx, "S-k1")] == ["k2"]
    rows = house.rows(messages.select().order_by(messages.c.id))
    assert [(row.state, row.answered_by) for row in rows] == [("answered", RUN), ("open", None)]


async def test_the_place_is_that_of_the_newest_input_shown(house: House) -> None:
    await put(house, key="k1", destination=Destination(chat_id="1"))
    await put(house, key="k2", destination=Destination(chat_id="2", thread_id="9"))
    with house.tx() as tx:
        assert deposit.place_of(tx, "S-k1", RUN) is None
        deposit.attach_open(tx, "S-k1")
    await put(house, key="k3", destination=Destination(chat_id="3"))
    with house.tx() as tx:
        place = deposit.place_of(tx, "S-k1", RUN)
        assert place is not None and place.destination["chatId"] == "2" and place.destination["threadId"] == "9"
        deposit.close_shown(tx, "S-k1", RUN, "answered")
        place = deposit.place_of(tx, "S-k1", RUN)
        assert place is not None and place.destination["chatId"] == "2"
        newest = deposit.last_place(tx, "S-k1")
        assert newest is not None and newest.destination["chatId"] == "3"
        assert deposit.last_place(tx, "nowhere") is None


async def test_a_message_is_woken_three_times_under_fresh_ids_and_never_steers(house: House) -> None:
    await put(house, key="k1", steers=True)
    woken = []
    with house.tx() as tx:
        for _ in range(MAX_WAKES + 2):
            woken.append(deposit.wake_next(tx, "S-k1"))
    signals = [event for event in woken if event is not None]
    assert [event["id"] for event in signals] == ["k1:again-1", "k1:again-2", "k1:again-3"]
    assert woken[MAX_WAKES:] == [None, None]
    for event in signals:
        assert (event["name"], event["data"]["steers"]) == ("agent.message.received", False)
        assert (event["data"]["messageKey"], event["data"]["sessionKey"]) == ("k1", SESSION)


async def test_the_newest_open_message_is_woken(house: House) -> None:
    await put(house, key="k1")
    await put(house, key="k2")
    with house.tx() as tx:
        event = deposit.wake_next(tx, "S-k1")
        assert event is not None and event["data"]["messageKey"] == "k2"


@pytest.mark.parametrize("state", ["answered", "failed", "stopped"])
async def test_a_closed_message_is_not_woken(house: House, state: str) -> None:
    await put(house)
    with house.tx() as tx:
        deposit.attach_open(tx, "S-k1")
        deposit.close_shown(tx, "S-k1", RUN, state)
        assert deposit.wake_next(tx, "S-k1") is None


async def test_an_event_without_a_key_of_its_own_gets_the_one_it_is_stored_under(house: House) -> None:
    with house.tx() as tx:
        deposit.deposit(tx, message(key=None), "event:e1", new_session_id="S", now=house.clock.now())
        event = deposit.wake_next(tx, "S")
    assert event is not None and event["data"]["messageKey"] == "event:e1"
