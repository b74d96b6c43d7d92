"""Delivery rows: the order of a chat, one sender for a part, and an end for every part."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from app.channels import outbox
from app.channels.channel import Absent, Later, Part, Refused, SendResult, Sent, Unknown
from app.channels.outbox import BACKOFF_S, EXPIRES_AFTER, SETTLES_IN, STUCK_AFTER, Blocked, Delivery
from app.events import Destination
from app.sentences import UNKNOWN_NOTICE
from app.sessions import session
from app.tables import deliveries
from tests.unit.house import RUN, SESSION, House

CHAT = "test:7"
BOOT = "home:boot1"


@pytest.fixture(autouse=True)
async def opened(house: House) -> None:
    with house.tx() as tx:
        session.open_session(tx, SESSION, "S", house.clock.now())


async def put(house: House, key: str, *texts: str, chat: str = "7", channel: str = "test", kind: str = "reply") -> None:
    parts: list[Part] = [{"text": text} for text in texts]
    with house.tx() as tx:
        outbox.put(
            tx,
            key,
            session_id="S",
            run_id=RUN,
            kind=kind,
            channel=channel,
            destination=Destination(chat_id=chat),
            parts=parts,
            text="\n".join(texts),
            now=house.clock.now(),
        )


async def claim(house: House, chat: str = CHAT, boot: str = BOOT) -> Delivery | Blocked | None:
    with house.tx() as tx:
        return outbox.claim_next(tx, chat, boot, house.clock.now())


async def claimed(house: House, chat: str = CHAT) -> Delivery:
    found = await claim(house, chat)
    assert isinstance(found, Delivery)
    return found


async def record(house: House, delivery: Delivery, result: SendResult | Absent) -> None:
    with house.tx() as tx:
        outbox.record(tx, delivery, result, house.clock.now())


async def states(house: House) -> list[tuple[str, str]]:
    rows = house.rows(deliveries.select().order_by(deliveries.c.id))
    return [(row.part["text"], row.state) for row in rows]


async def test_parts_go_out_in_their_order(house: House) -> None:
    await put(house, "r1", "a", "b")
    await put(house, "r2", "c")
    sent = []
    while isinstance(delivery := await claim(house), Delivery):
        sent.append(delivery.part["text"])
        await record(house, delivery, Sent({"id": 1}))
    assert sent == ["a", "b", "c"]
    assert await claim(house) is None
    assert {state for _, state in await states(house)} == {"sent"}


async def test_a_key_that_is_there_adds_nothing(house: House) -> None:
    await put(house, "r1", "a")
    await put(house, "r1", "other", "and more")
    assert await states(house) == [("a", "pending")]
    await put(house, "r2")
    assert len(await states(house)) == 1


async def test_the_whole_text_is_kept_with_the_first_part(house: House) -> None:
    await put(house, "r1", "a", "b")
    rows = house.rows(deliveries.select().order_by(deliveries.c.id))
    assert [row.text for row in rows] == ["a\nb", ""]
    assert [row.key for row in rows] == ["r1/0", "r1/1"]


async def test_a_part_waits_for_those_before_it(house: House) -> None:
    await put(house, "r1", "a", "b")
    first = await claimed(house)
    blocked = await claim(house)
    assert isinstance(blocked, Blocked) and blocked.until == house.clock.now() + STUCK_AFTER
    await record(house, first, Refused("no"))
    assert (await claimed(house)).part["text"] == "b"


async def test_chats_do_not_wait_for_one_another(house: House) -> None:
    await put(house, "r1", "a")
    await put(house, "r2", "b", chat="8")
    assert (await claimed(house)).part["text"] == "a"
    assert (await claimed(house, "test:8")).part["text"] == "b"


async def test_of_many_senders_at_once_one_gets_the_part(house: House) -> None:
    """Through two doors to one file, as two processes would."""
    await put(house, "r1", "a")
    other = house.other_door()
    claims = [door.write(outbox.claim_next, CHAT, BOOT, house.clock.now()) for door in [house.db, other] * 3]
    found = await asyncio.gather(*claims)
    assert sum(isinstance(one, Delivery) for one in found) == 1
    assert sum(isinstance(one, Blocked) for one in found) == 5
    await other.close()


async def test_later_waits_as_long_as_the_platform_asked(house: House) -> None:
    await put(house, "r1", "a")
    await record(house, await claimed(house), Later(37.0, "slow down"))
    blocked = await claim(house)
    assert isinstance(blocked, Blocked) and blocked.until == house.clock.now() + timedelta(seconds=37)
    house.clock.advance(37)
    delivery = await claimed(house)
    assert delivery.attempts == 2
    await record(house, delivery, Sent({}))
    assert await states(house) == [("a", "sent")]


async def test_later_without_a_time_backs_off(house: House) -> None:
    await put(house, "r1", "a")
    pauses = []
    for _ in range(len(BACKOFF_S) + 1):
        before = house.clock.now()
        await record(house, await claimed(house), Later(None, "not reachable"))
        blocked = await claim(house)
        assert isinstance(blocked, Blocked)
        pauses.append((blocked.until - before).total_seconds())
        house.clock.advance(pauses[-1])
    assert pauses == [*BACKOFF_S, BACKOFF_S[-1]]


async def test_refused_ends_the_part_with_its_reason(house: House) -> None:
    await put(house, "r1", "a")
    await record(house, await claimed(house), Refused("chat not found"))
    (row,) = house.rows(deliveries.select())
    assert (row.state, row.reason) == ("failed", "chat not found")
    assert await claim(house) is None


async def test_unknown_is_never_sent_again_and_said_once(house: House) -> None:
    await put(house, "r1", "a")
    delivery = await claimed(house)
    await record(house, delivery, Unknown("no answer"))
    await record(house, delivery, Unknown("no answer"))
    assert await states(house) == [("a", "unknown"), (UNKNOWN_NOTICE, "pending")]


@pytest.mark.parametrize("why", [outbox.VANISHED, "Telegram was asked and did not answer"])
async def test_a_notice_in_doubt_is_repeated_but_not_for_ever(house: House, why: str) -> None:
    """A misfortune at the answer, and then again at the notice that stands for it: somebody still hears of it."""
    await put(house, "r1", "a")
    await record(house, await claimed(house), Unknown(why))
    for attempt in (1, 2, 3):
        notice = await claimed(house)
        assert (notice.part["text"], notice.attempts) == (UNKNOWN_NOTICE, attempt)
        await record(house, notice, Unknown(why))
        house.clock.advance(60)
    assert await claim(house) is None
    assert await states(house) == [("a", "unknown"), (UNKNOWN_NOTICE, "unknown")]


async def test_a_part_whose_sender_vanished_is_asked_for(house: House) -> None:
    await put(house, "r1", "a", "b")
    vanished = await claimed(house)
    house.clock.advance(STUCK_AFTER.total_seconds())
    asking = await claimed(house)
    assert (asking.part["text"], asking.doubtful, asking.attempts) == ("a", True, 1)
    assert isinstance(await claim(house), Blocked), "one asks at a time"
    await record(house, asking, Unknown("nobody can tell"))
    assert (await states(house))[0] == ("a", "unknown")
    await record(house, vanished, Refused("too late"))
    assert (await states(house))[0] == ("a", "unknown")


async def test_a_part_that_did_not_arrive_is_sent_again(house: House) -> None:
    await put(house, "r1", "a")
    vanished = await claimed(house)
    house.clock.advance(STUCK_AFTER.total_seconds())
    await record(house, await claimed(house), Absent())
    again = await claimed(house)
    assert (again.part["text"], again.doubtful, again.attempts) == ("a", False, 2)
    await record(house, vanished, Refused("of the first try"))
    assert await states(house) == [("a", "sending")], "the first sender has no say in the second try"
    await record(house, again, Sent({"id": 2}))
    assert await states(house) == [("a", "sent")]


async def test_what_is_in_doubt_is_asked_for_as_late_as_it_must_be(house: House) -> None:
    await put(house, "r1", "a", "b")
    for asked, pause_s in ((Absent(), 2), (Later(60.0, "slow down"), 60), (Later(None, "away"), 2)):
        delivery = await claimed(house)
        with house.tx() as tx:
            outbox.doubt(tx, delivery, asked, house.clock.now())
        blocked = await claim(house)
        assert isinstance(blocked, Blocked) and blocked.until == house.clock.now() + timedelta(seconds=pause_s)
        house.clock.advance(pause_s)
    with house.tx() as tx:
        assert [row.chat_key for row in outbox.unsent_chats(tx, house.clock.now())] == [CHAT]
    assert (await claimed(house)).doubtful


async def test_a_platform_that_never_answers_leaves_an_unknown_part_after_a_day(house: House) -> None:
    await put(house, "r1", "a")
    delivery = await claimed(house)
    house.clock.advance(EXPIRES_AFTER.total_seconds())
    with house.tx() as tx:
        outbox.doubt(tx, delivery, Later(None, "away"), house.clock.now())
    assert await states(house) == [("a", "unknown"), (UNKNOWN_NOTICE, "pending")]


async def test_a_receipt_that_comes_late_takes_the_doubt_away(house: House) -> None:
    """The part was taken for lost, then its sender came back with the platform's receipt."""
    await put(house, "r1", "a")
    slow = await claimed(house)
    house.clock.advance(STUCK_AFTER.total_seconds())
    await record(house, await claimed(house), Unknown("nobody can tell"))
    assert (await claimed(house)).part["text"] == UNKNOWN_NOTICE
    await record(house, slow, Sent({"id": 5}))
    (row, _) = house.rows(deliveries.select().order_by(deliveries.c.id))
    assert (row.state, row.receipt) == ("sent", {"id": 5})


async def test_a_dead_boot_leaves_no_claimed_part(house: House) -> None:
    await put(house, "r1", "a")
    await claimed(house)
    with house.tx() as tx:
        assert outbox.close_dead(tx, "home", BOOT, house.clock.now()) == 0
        assert outbox.close_dead(tx, "other", "other:boot1", house.clock.now()) == 0
        assert outbox.close_dead(tx, "home", "home:boot2", house.clock.now()) == 1
        assert outbox.close_dead(tx, "home", "home:boot2", house.clock.now()) == 0
    blocked = await claim(house)
    assert isinstance(blocked, Blocked) and blocked.until == house.clock.now() + SETTLES_IN
    house.clock.advance(SETTLES_IN.total_seconds())
    assert (await claimed(house)).doubtful


@pytest.mark.parametrize("channel", ["terminal", "http"])
async def test_a_mailbox_may_be_filled_again(house: House, channel: str) -> None:
    await put(house, "r1", "a", channel=channel)
    chat = f"{channel}:7"
    await claimed(house, chat)
    with house.tx() as tx:
        outbox.close_dead(tx, "home", "home:boot2", house.clock.now())
    assert await states(house) == [("a", "pending")]
    await claimed(house, chat)
    house.clock.advance(STUCK_AFTER.total_seconds())
    await record(house, await claimed(house, chat), Sent({}))
    assert await states(house) == [("a", "sent")]


async def test_a_part_that_was_never_tried_goes_out_at_any_age(house: House) -> None:
    """The service was down over the weekend: the answer is late, not lost."""
    await put(house, "r1", "a", "b")
    house.clock.advance(3 * EXPIRES_AFTER.total_seconds())
    await record(house, await claimed(house), Sent({}))
    await record(house, await claimed(house), Sent({}))
    assert await states(house) == [("a", "sent"), ("b", "sent")]


async def test_what_stands_behind_an_expired_part_has_its_own_try(house: House) -> None:
    await put(house, "r1", "a", "b")
    await record(house, await claimed(house), Later(60.0, "slow down"))
    house.clock.advance(EXPIRES_AFTER.total_seconds())
    await put(house, "r2", "c")
    assert (await claimed(house)).part["text"] == "b"
    assert await states(house) == [("a", "expired"), ("b", "sending"), ("c", "pending")]


async def test_waiting_for_the_platform_ends_after_a_day(house: House) -> None:
    await put(house, "r1", "a")
    house.clock.advance(EXPIRES_AFTER.total_seconds() - 10)
    await record(house, await claimed(house), Later(60.0, "slow down"))
    house.clock.advance(60)
    assert await claim(house) is None
    (row,) = house.rows(deliveries.select())
    assert (row.state, row.reason) == ("expired", "not sent within 24 hours")


async def test_when_the_next_part_is_due(house: House) -> None:
    async def due() -> Any:
        with house.tx() as tx:
            return outbox.next_due(tx, CHAT)

    assert await due() is None
    await put(house, "r1", "a")
    created = house.clock.now()
    house.clock.advance(5)
    assert await due() == created
    await record(house, await claimed(house), Later(30.0, "slow down"))
    assert await due() == house.clock.now() + timedelta(seconds=30)
    house.clock.advance(30)
    await record(house, await claimed(house), Sent({}))
    assert await due() is None


async def test_chats_with_something_unsent(house: House) -> None:
    await put(house, "r1", "a", "b")
    await put(house, "r2", "c", chat="8")
    with house.tx() as tx:
        found = outbox.unsent_chats(tx, house.clock.now())
    assert [(row.chat_key, row.session_key, row.run_id) for row in found] == [
        (CHAT, SESSION, RUN),
        ("test:8", SESSION, RUN),
    ]
    await record(house, await claimed(house, "test:8"), Sent({}))
    with house.tx() as tx:
        assert [row.chat_key for row in outbox.unsent_chats(tx, house.clock.now())] == [CHAT]


async def test_what_was_delivered_since(house: House) -> None:
    await put(house, "r1", "a", "b")
    await record(house, await claimed(house), Sent({}))
    with house.tx() as tx:
        rows = outbox.since(tx, ["S"], 0)
        assert [row.part["text"] for row in rows] == ["a"]
        assert outbox.since(tx, ["S"], rows[0].id) == []
        assert outbox.since(tx, [], 0) == []
        assert outbox.exists(tx, "r1") and not outbox.exists(tx, "r9")


# The way out: 429 with retry_after 37 s retried after 2 s, final reply dropped -> durable sleep as asked, per bot and
# per chat, costs no attempt.
async def test_a_limit_of_one_chat_is_that_chats_alone_and_of_several_chats_that_of_all(house: House) -> None:
    for chat in ("7", "8", "9"):
        await put(house, f"k{chat}", "text", chat=chat)
    await record(house, await claimed(house, "test:7"), Later(37, "Too Many Requests", crowded=True))
    assert isinstance(await claim(house, "test:9"), Delivery)
    await record(house, await claimed(house, "test:8"), Later(20, "Too Many Requests", crowded=True))
    await put(house, "k10", "text", chat="10")
    waits = await claim(house, "test:10")
    assert isinstance(waits, Blocked) and (waits.until - house.clock.now()).total_seconds() == 37
    house.clock.advance(20)
    assert isinstance(await claim(house, "test:10"), Delivery)
    house.clock.advance(17)
    assert isinstance(await claim(house, "test:7"), Delivery)


async def test_what_cannot_be_reached_blocks_nobody_else(house: House) -> None:
    for chat in ("7", "8", "9"):
        await put(house, f"k{chat}", "text", chat=chat)
    for chat in ("7", "8"):
        await record(house, await claimed(house, f"test:{chat}"), Later(60, "Telegram cannot be reached"))
    assert isinstance(await claim(house, "test:9"), Delivery)
