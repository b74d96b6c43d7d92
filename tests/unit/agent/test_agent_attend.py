"""Long work inside a step: watched, renewed, and never left behind."""

import asyncio
from typing import Any

import pytest

from app.agent import attend as module
from app.agent.attend import attend
from app.sessions import session, turns
from tests.unit.house import RUN, House, begin, run_id


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.005)
    monkeypatch.setattr(module, "SEEN_EVERY_LOOKS", 2)


async def test_the_result_comes_back(house: House) -> None:
    async def work() -> int:
        await asyncio.sleep(0.02)
        return 7

    assert await attend(house.harness, await begin(house), work()) == 7


async def test_an_error_comes_back(house: House) -> None:
    async def work() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await attend(house.harness, await begin(house), work())


async def test_work_that_refuses_to_end_when_stopped_is_waited_for(house: House) -> None:
    flow = await begin(house)
    ended = []

    async def work() -> None:
        with house.tx() as tx:
            session.stop(tx, flow.session_id, house.clock.now())
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            ended.append(True)

    assert await attend(house.harness, flow, work()) is None
    assert ended == [True]


async def test_a_superseded_turn_lets_its_work_end(house: House) -> None:
    """A finished result is a fact; only a stop ends a tool."""
    flow = await begin(house)

    async def work() -> str:
        await begin(house, "newer", "k2", run_id(2))
        await asyncio.sleep(0.05)
        return "done"

    assert await attend(house.harness, flow, work()) == "done"
    with house.tx() as tx:
        turn = turns.find(tx, RUN)
        assert turn is not None and turn.state == "superseded" and turns.holder(tx, flow.session_id) == run_id(2)


async def test_looking_is_not_taking(house: House) -> None:
    """A turn that renews itself after a newer one began does not take the session back."""
    flow = await begin(house)
    await begin(house, "newer", "k2", run_id(2))
    await module._renew(house.harness, flow, None)
    with house.tx() as tx:
        assert turns.holder(tx, flow.session_id) == run_id(2)


async def test_being_cancelled_it_cancels_the_work_and_passes_it_on(house: House) -> None:
    started = asyncio.Event()
    cancelled = []

    async def work() -> Any:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    watching = asyncio.ensure_future(attend(house.harness, await begin(house), work()))
    await started.wait()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert cancelled == [True]
