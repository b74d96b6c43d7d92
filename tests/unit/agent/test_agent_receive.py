"""The first step of a turn: stored, taken, fixed; or the reason why there is no turn."""

from datetime import timedelta
from typing import Any

import pytest

from app.agent.receive import receive
from app.sessions import deposit, session, turns
from app.tables import messages
from app.tables import turns as turn_rows
from tests.unit.house import RUN, SESSION, House, begin, kill_at, make_house, message, run_id


async def test_a_message_becomes_a_turn(house: House) -> None:
    flow = await begin(house)
    assert (flow.stop, flow.run_id, flow.session_key, flow.model) == (None, RUN, SESSION, "test/model")
    assert (flow.max_iterations, flow.delegates, flow.compact) == (20, True, False)
    (row,) = house.rows(messages.select())
    assert (row.state, row.attached, row.session_id) == ("open", True, flow.session_id)
    (turn,) = house.rows(turn_rows.select())
    assert (turn.state, turn.origin, turn.message_key, turn.boot_id) == ("live", "person", "test:1", "home:boot1")


async def test_repeated_it_says_the_same(house: House) -> None:
    first = await receive(house.harness, RUN, message(), "test:1")
    assert await receive(house.harness, RUN, message(), "test:1") == first
    assert len(house.rows(messages.select())) == len(house.rows(turn_rows.select())) == 1


async def test_killed_before_the_memo_it_says_the_same(house: House) -> None:
    with kill_at("receive.committed"):
        await begin(house)
    assert (await begin(house)).stop is None
    assert len(house.rows(messages.select())) == 1


async def test_the_older_run_that_comes_late_is_no_turn(house: House) -> None:
    await begin(house, key="k2", run=run_id(2))
    late = await begin(house, key="k1", run=run_id(1))
    assert late.stop == "superseded"
    rows = {row.message_key: (row.state, row.attached) for row in house.rows(messages.select())}
    assert rows == {"k2": ("open", True), "k1": ("open", False)}


async def test_a_message_answered_by_another_turn_is_no_turn(house: House) -> None:
    flow = await begin(house)
    with house.tx() as tx:
        deposit.close_shown(tx, flow.session_id, RUN, "answered")
        turns.end(tx, RUN, "finished", house.clock.now())
    assert (await begin(house, run=run_id(2))).stop == "nothing"
    with house.tx() as tx:
        assert turns.holder(tx, flow.session_id) == RUN


async def test_its_own_replay_is_a_turn_again(house: House) -> None:
    """The run that answered is replayed from its memos: it must not say `nothing` all at once."""
    flow = await begin(house)
    with house.tx() as tx:
        deposit.close_shown(tx, flow.session_id, RUN, "answered")
        turns.end(tx, RUN, "finished", house.clock.now())
    assert (await begin(house)).stop is None


async def test_one_turn_shows_all_open_messages(house: House) -> None:
    with house.tx() as tx:
        for number in range(4):
            key = f"k{number}"
            deposit.deposit(tx, message(str(number), key), key, new_session_id="S", now=house.clock.now())
    await begin(house, "4", "k4")
    assert [row.attached for row in house.rows(messages.select())] == [True] * 5
    assert (await begin(house, "2", "k2", run_id(2))).stop is None


async def test_a_machine_waits_its_turn(house: House) -> None:
    await begin(house, run=run_id(1))
    machine = await begin(house, "a file came", "k2", run_id(2), steers=False, origin="the watcher")
    assert machine.stop == "busy"
    house.clock.advance(60)
    assert (await begin(house, "a file came", "k2", run_id(3), steers=False, origin="the watcher")).stop is None


async def test_a_stopped_message_is_no_turn(house: House) -> None:
    with house.tx() as tx:
        deposit.deposit(tx, message(), "test:1", new_session_id="S", now=house.clock.now())
        session.stop(tx, "S", house.clock.now())
    assert (await begin(house)).stop == "nothing"


async def test_stopped_between_two_attempts(house: House) -> None:
    flow = await begin(house)
    with house.tx() as tx:
        session.stop(tx, flow.session_id, house.clock.now())
    assert (await begin(house)).stop == "stopped"


async def test_interrupted_long_ago_is_left_to_the_first_thought(house: House) -> None:
    await begin(house)
    house.clock.advance(timedelta(minutes=11).total_seconds())
    assert (await begin(house.rebooted())).stop is None
    with house.tx() as tx:
        turn = turns.find(tx, RUN)
    assert turn is not None and turn.boot_id == "home:boot1"


async def test_a_sub_agent_does_not_delegate(house: House) -> None:
    assert not (await begin(house, origin="task")).delegates


@pytest.mark.parametrize(
    ("changes", "compact", "fallback"),
    [({"agent_model": ""}, True, ""), ({"agent_model": "a/b", "fallback_agent_model": "c/d"}, False, "c/d")],
)
async def test_the_settings_are_fixed_for_the_turn(
    tmp_path: Any, template: Any, clean_environment: None, changes: dict[str, str], compact: bool, fallback: str
) -> None:
    house = make_house(tmp_path / "h", template, agent_max_iterations=7, **changes)
    flow = await begin(house)
    assert (flow.compact, flow.fallback, flow.max_iterations) == (compact, fallback, 7)
    await house.db.close()
