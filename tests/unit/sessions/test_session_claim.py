"""Who holds a session: older runs never take it back, stopped ones never go on."""

from datetime import timedelta
from typing import Any

import pytest

from app.sessions import deposit, session, turns
from app.sessions.session import OWNED_FOR, STALE_AFTER, STOPPED, Claim
from app.tables import messages, sessions
from app.tables import turns as turn_rows
from tests.unit.house import SESSION, House, message, run_id

OLD, MINE, NEW = run_id(1), run_id(2), run_id(3)
SECOND = timedelta(seconds=1)


async def claim(house: House, run: str, boot: str = "home:boot1", steers: bool = True) -> Claim:
    with house.tx() as tx:
        return session.claim(tx, "S", run, boot_id=boot, now=house.clock.now(), steers=steers)


async def begin(house: House, run: str, boot: str = "home:boot1", **options: Any) -> Claim:
    """Claim and, if held, start the turn, as `receive` does."""
    held = await claim(house, run, boot, **options)
    if held is Claim.HELD:
        with house.tx() as tx:
            now = house.clock.now()
            turns.start(tx, run, "S", message_key="k", origin="person", model="m", boot_id=boot, now=now)
    return held


async def state_of(house: House, run: str) -> str:
    return str(house.scalar(turn_rows.select().with_only_columns(turn_rows.c.state).where(_is(run))))


def _is(run: str) -> Any:
    return turn_rows.c.run_id == run


@pytest.fixture(autouse=True)
async def opened(house: House) -> None:
    with house.tx() as tx:
        session.open_session(tx, SESSION, "S", house.clock.now())


async def test_the_first_run_takes_it_and_keeps_it(house: House) -> None:
    assert await begin(house, MINE) is Claim.HELD
    assert await claim(house, MINE) is Claim.HELD


# TRAPS, Life and death: "Resume and a new message make two agents for one session -> lease with fencing token".
async def test_a_newer_run_takes_it_and_the_older_never_gets_it_back(house: House) -> None:
    await begin(house, OLD)
    assert await begin(house, NEW) is Claim.HELD
    assert await claim(house, OLD) is Claim.SUPERSEDED
    assert await claim(house, NEW) is Claim.HELD
    assert await state_of(house, OLD) == "superseded"
    assert await state_of(house, NEW) == "live"


async def test_a_run_that_comes_late_is_superseded_though_it_never_held(house: House) -> None:
    await begin(house, NEW)
    assert await begin(house, OLD) is Claim.SUPERSEDED
    assert await state_of(house, OLD) == "None"


async def test_a_superseded_turn_is_settled(house: House) -> None:
    """Else a client that waits for what follows a turn would wait for ever."""
    await begin(house, OLD)
    await begin(house, NEW)
    (row,) = house.rows(turn_rows.select().where(_is(OLD)))
    assert row.ended_at is not None and row.settled_at is not None


async def test_a_finished_turn_is_not_rewritten_by_a_newer_claim(house: House) -> None:
    await begin(house, OLD)
    with house.tx() as tx:
        turns.end(tx, OLD, "finished", house.clock.now())
    await begin(house, NEW)
    assert await state_of(house, OLD) == "finished"


async def test_stop_ends_the_holder_and_only_a_later_run_goes_on(house: House) -> None:
    await begin(house, MINE)
    with house.tx() as tx:
        assert session.stop(tx, "S", house.clock.now()) == MINE
    assert await claim(house, MINE) is Claim.STOPPED
    assert await claim(house, OLD) is Claim.SUPERSEDED
    assert await state_of(house, MINE) == "stopped"
    assert await begin(house, NEW) is Claim.HELD
    assert await state_of(house, MINE) == "stopped"


def test_the_mark_of_a_stop_sorts_behind_its_run_and_before_every_later_one() -> None:
    assert MINE < MINE + STOPPED < NEW
    assert "01ARZ3NDEKTSV4RRFFQ69G5FAZ" + STOPPED < "01ARZ3NDEKTSV4RRFFQ69G5FB0"


async def test_stopping_twice_marks_once(house: House) -> None:
    await begin(house, MINE)
    with house.tx() as tx:
        session.stop(tx, "S", house.clock.now())
        assert session.stop(tx, "S", house.clock.now()) is None
    assert house.scalar(sessions.select().with_only_columns(sessions.c.holder)) == MINE + STOPPED


async def test_stop_closes_the_open_messages(house: House) -> None:
    with house.tx() as tx:
        deposit.deposit(tx, message(key="k1"), "k1", new_session_id="X", now=house.clock.now())
        assert session.stop(tx, "S", house.clock.now()) is None
    assert [row.state for row in house.rows(messages.select())] == ["stopped"]


async def test_a_closed_session_stops_everyone_and_the_key_opens_a_new_one(house: House) -> None:
    await begin(house, MINE)
    with house.tx() as tx:
        session.close(tx, "S", house.clock.now())
        assert session.find(tx, SESSION) is None
        assert session.open_session(tx, SESSION, "T", house.clock.now()) == "T"
    assert await claim(house, MINE) is Claim.STOPPED
    assert await claim(house, NEW) is Claim.STOPPED


async def test_a_machine_run_does_not_disturb_a_live_turn(house: House) -> None:
    await begin(house, OLD)
    assert await claim(house, NEW, steers=False) is Claim.BUSY
    assert await claim(house, OLD) is Claim.HELD
    assert await state_of(house, OLD) == "live"


@pytest.mark.parametrize(("unseen", "expected"), [(OWNED_FOR - SECOND, Claim.BUSY), (OWNED_FOR, Claim.HELD)])
async def test_a_machine_run_takes_it_once_the_owner_was_not_seen_for_a_minute(
    house: House, unseen: timedelta, expected: Claim
) -> None:
    await begin(house, OLD)
    house.clock.advance(unseen.total_seconds())
    assert await claim(house, NEW, steers=False) is expected


async def test_a_durable_wait_is_owned_until_its_end(house: House) -> None:
    await begin(house, OLD)
    with house.tx() as tx:
        turns.wait_until(tx, OLD, house.clock.now() + timedelta(hours=1))
    house.clock.advance(3599)
    assert await claim(house, NEW, steers=False) is Claim.BUSY
    house.clock.advance(2)
    assert await claim(house, NEW, steers=False) is Claim.HELD


async def test_a_machine_run_that_holds_goes_on(house: House) -> None:
    await begin(house, MINE, steers=False)
    assert await claim(house, MINE, steers=False) is Claim.HELD


@pytest.mark.parametrize(
    ("away", "boot", "expected"),
    [
        (STALE_AFTER, "home:boot2", Claim.HELD),
        (STALE_AFTER + SECOND, "home:boot2", Claim.STALE),
        (STALE_AFTER + SECOND, "home:boot1", Claim.HELD),
    ],
)
async def test_a_turn_interrupted_long_ago_is_offered_not_resumed(
    house: House, away: timedelta, boot: str, expected: Claim
) -> None:
    await begin(house, MINE)
    house.clock.advance(away.total_seconds())
    assert await claim(house, MINE, boot) is expected
    assert await claim(house, MINE, boot) is expected


async def test_a_turn_that_was_to_wait_long_is_not_stale(house: House) -> None:
    await begin(house, MINE)
    with house.tx() as tx:
        turns.wait_until(tx, MINE, house.clock.now() + timedelta(hours=2))
    house.clock.advance(2 * 3600 + 60)
    assert await claim(house, MINE, "home:boot2") is Claim.HELD


async def test_claiming_renews_the_turn(house: House) -> None:
    await begin(house, MINE)
    with house.tx() as tx:
        turns.wait_until(tx, MINE, house.clock.now() + timedelta(seconds=30))
    house.clock.advance(40)
    await claim(house, MINE, "home:boot2")
    with house.tx() as tx:
        row = turns.find(tx, MINE)
        assert row is not None and (row.boot_id, row.waiting_until) == ("home:boot2", None)
        assert session.is_live(tx, MINE, house.clock.now() + timedelta(seconds=59))
        assert not session.is_live(tx, MINE, house.clock.now() + timedelta(seconds=60))


async def test_no_turn_no_life(house: House) -> None:
    with house.tx() as tx:
        assert not session.is_live(tx, "", house.clock.now())
        assert not session.is_live(tx, MINE + STOPPED, house.clock.now())
