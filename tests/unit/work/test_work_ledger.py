"""The ledger on a real database: what is written stays, once."""

from datetime import timedelta

import pytest

from app.errors import BadInput
from app.tables import observations
from app.work import ledger, supervision
from app.work.observation import Kind, Observation
from app.work.projection import Truth
from app.work.supervision import Limits
from tests.unit.house import House
from tests.unit.work.ledgers import START, TASK, Line, minutes


def seen(kind: Kind = Kind.STEP_PROGRESS, key: str = "k", step: str | None = "a", minute: int = 1) -> Observation:
    return Observation(TASK, kind, key, minutes(minute), "owner", step, summary="said")


async def test_a_repeat_under_the_same_key_adds_nothing(house: House) -> None:
    assert await house.db.write(ledger.append, seen())
    assert not await house.db.write(ledger.append, seen(minute=9))
    (found,) = await house.db.read(ledger.of_task, TASK)
    assert (found.at, found.summary, found.step) == (minutes(1), "said", "a")


async def test_what_is_read_is_what_was_written(house: House) -> None:
    line = Line("a", "b").see(1, Kind.EXTERNAL_OBSERVED, "a", job="film", status="pending", evidence={"receipt": "7"})
    assert await house.db.write(ledger.append_all, line.seen) == 2
    assert await house.db.read(ledger.of_task, TASK) == line.seen
    assert await house.db.read(ledger.derived, TASK) == line.derived
    assert line.derived.truth_state is Truth.WAITING_EXTERNAL


async def test_an_observation_that_lacks_something_is_not_written(house: House) -> None:
    with pytest.raises(BadInput, match="needs the name of its step"):
        await house.db.write(ledger.append, seen(step=None))
    assert house.rows(observations.select()) == []


async def test_text_that_no_wire_takes_is_made_safe(house: House) -> None:
    await house.db.write(ledger.append, Observation(TASK, Kind.HEARTBEAT, "k", START, "owner", summary="\udc80\x00"))
    assert (await house.db.read(ledger.of_task, TASK))[0].summary == "?"


async def test_tasks_are_listed_by_their_newest_observation(house: House) -> None:
    for number, task in enumerate(("one", "two", "one")):
        await house.db.write(ledger.append, Observation(task, Kind.HEARTBEAT, f"k{number}", START, "owner"))
    assert await house.db.read(ledger.recent, 10) == ["one", "two"]
    assert await house.db.read(ledger.exists, "two") and not await house.db.read(ledger.exists, "three")


async def test_a_watch_is_begun_once_and_looked_at_when_it_is_due(house: House) -> None:
    limits = Limits(nudge_s=3600)
    assert await house.db.write(supervision.begin, TASK, owner_key="test:chat", now=START, limits=limits)
    assert not await house.db.write(supervision.begin, TASK, owner_key="other", now=START)
    (found,) = await house.db.read(supervision.due, START)
    assert (found.owner_key, found.limits, found.retries, found.created_at) == ("test:chat", limits, {}, START)
    assert await house.db.write(supervision.change, found, next_check_at=minutes(30), retries={"a": 1})
    assert await house.db.read(supervision.due, minutes(29)) == []


async def test_news_of_a_task_makes_its_watch_due(house: House) -> None:
    await house.db.write(supervision.begin, TASK, owner_key=None, now=START)
    (found,) = await house.db.read(supervision.due, START)
    await house.db.write(supervision.change, found, next_check_at=minutes(30))
    await house.db.write(ledger.append, seen(minute=5))
    assert [one.task_id for one in await house.db.read(supervision.due, minutes(5))] == [TASK]


async def test_of_two_beats_one_notes_what_it_did(house: House) -> None:
    await house.db.write(supervision.begin, TASK, owner_key=None, now=START)
    (found,) = await house.db.read(supervision.due, START)
    done = [await house.db.write(supervision.change, found, asks=1, asked_at=START) for _ in range(2)]
    assert done == [True, False]


async def test_the_end_of_a_watch_leaves_the_observations(house: House) -> None:
    await house.db.write(ledger.append, seen())
    await house.db.write(supervision.begin, TASK, owner_key=None, now=START)
    assert await house.db.write(supervision.end, TASK) and not await house.db.write(supervision.end, TASK)
    assert len(await house.db.read(ledger.of_task, TASK)) == 1
    assert await house.db.read(supervision.find, TASK) is None


async def test_the_watches_of_an_owner(house: House) -> None:
    for number, owner in enumerate(("x", "y", "x")):
        await house.db.write(
            supervision.begin, f"t{number}", owner_key=owner, now=START + timedelta(minutes=number)
        )  # fmt: skip
    assert [one.task_id for one in await house.db.read(supervision.of_owner, "x")] == ["t0", "t2"]
    assert len(await house.db.read(supervision.everything)) == 3
