"""A turn is a run: one row that says whether it lives, what it does and how it ended."""

from datetime import timedelta

import pytest

from app.sessions import deposit, session, turns
from tests.unit.house import RUN, SESSION, House, begin, message, run_id


@pytest.fixture(autouse=True)
async def opened(house: House) -> None:
    with house.tx() as tx:
        session.open_session(tx, SESSION, "S", house.clock.now())
        await start(house, tx, RUN)


async def start(house: House, tx: object, run: str, model: str = "m") -> None:
    turns.start(
        tx,  # type: ignore[arg-type]
        run,
        "S",
        message_key="k1",
        origin="person",
        model=model,
        boot_id="home:boot1",
        now=house.clock.now(),
    )


async def test_starting_again_changes_nothing(house: House) -> None:
    with house.tx() as tx:
        turns.end(tx, RUN, "finished", house.clock.now())
        await start(house, tx, RUN, model="another")
        row = turns.find(tx, RUN)
    assert row is not None and (row.state, row.model, row.activity, row.iteration) == ("finished", "m", "thinking", 0)


async def test_the_newest_is_that_of_the_newest_run(house: House) -> None:
    with house.tx() as tx:
        await start(house, tx, run_id(7))
        await start(house, tx, run_id(6))
        newest = turns.newest(tx, "S")
        assert newest is not None and newest.run_id == run_id(7)
        assert turns.newest(tx, "T") is None


async def test_what_it_does_is_noted(house: House) -> None:
    with house.tx() as tx:
        turns.note_activity(tx, RUN, "tool", tool="bash", iteration=3)
        row = turns.find(tx, RUN)
        assert row is not None and (row.activity, row.tool, row.iteration) == ("tool", "bash", 3)
        turns.note_activity(tx, RUN, "thinking")
        row = turns.find(tx, RUN)
        assert row is not None and (row.activity, row.tool, row.iteration) == ("thinking", None, 3)
        turns.wait_until(tx, RUN, house.clock.now() + timedelta(seconds=5))
        row = turns.find(tx, RUN)
        assert row is not None and (row.activity, row.tool) == ("waiting", None)


async def test_every_announcement_has_a_fresh_number(house: House) -> None:
    with house.tx() as tx:
        assert [turns.count_announcement(tx, RUN) for _ in range(3)] == [1, 2, 3]


async def test_settled_is_noted_once(house: House) -> None:
    with house.tx() as tx:
        turns.settle(tx, RUN, house.clock.now())
        first = turns.find(tx, RUN)
        house.clock.advance(60)
        turns.settle(tx, RUN, house.clock.now())
        second = turns.find(tx, RUN)
    assert first is not None and second is not None and first.settled_at == second.settled_at


async def test_the_turn_of_a_message(house: House) -> None:
    with house.tx() as tx:
        deposit.deposit(tx, message(), "k1", new_session_id="X", now=house.clock.now())
        deposit.attach_open(tx, "S")
        row = turns.for_message(tx, "k1")
        assert row is not None and (row.state, row.answered_by, row.session_id) == ("open", None, "S")
        deposit.close_shown(tx, "S", RUN, "answered")
        row = turns.for_message(tx, "k1")
        assert row is not None and (row.state, row.answered_by) == ("answered", RUN)
        assert turns.for_message(tx, "k2") is None
        assert turns.holder(tx, "S") == ""
        assert turns.holder(tx, "nowhere") == ""


async def test_stopping_a_turn_stops_its_session_and_any_other_run_nothing(house: House) -> None:
    conditions = await begin(house)
    with house.tx() as tx:
        session.stop_turn(tx, run_id(99), house.clock.now())
        assert turns.find(tx, RUN).state == "live"  # type: ignore[union-attr]
        session.stop_turn(tx, RUN, house.clock.now())
        assert turns.find(tx, RUN).state == "stopped"  # type: ignore[union-attr]
        assert deposit.open_inputs(tx, conditions.session_id) == []
