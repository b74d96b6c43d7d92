"""Priority: who goes first among those that wait."""

from pathlib import Path

import inngest

from tests.engine.lab import running
from tests.engine.workshop import Gated, Noted, until

_PAID_FIRST = inngest.Priority(run="event.data.paid == true ? 120 : 0")


async def test_a_preferred_run_passes_those_that_wait_for_a_slot(tmp_path: Path) -> None:
    gated = Gated(concurrency=[inngest.Concurrency(limit=1)], priority=_PAID_FIRST)
    async with running(tmp_path / "engine.db", gated.build) as lab:
        for number, paid in ((1, False), (2, False), (3, True)):
            await lab.engine.send([{"name": "gated", "data": {"n": number, "paid": paid}}])
            lab.clock.advance(1)
        await until(lambda: gated.inside == [1])
        gated.let_go(1, 2, 3)
        await lab.engine.idle()

        assert gated.order == [1, 3, 2]


async def test_a_shift_is_no_absolute_rank(tmp_path: Path) -> None:
    gated = Gated(concurrency=[inngest.Concurrency(limit=1)], priority=_PAID_FIRST)
    async with running(tmp_path / "engine.db", gated.build) as lab:
        for number, paid, wait in ((1, False, 0), (2, False, 121), (3, True, 0)):
            await lab.engine.send([{"name": "gated", "data": {"n": number, "paid": paid}}])
            lab.clock.advance(wait)
        await until(lambda: gated.inside == [1])
        gated.let_go(1, 2, 3)
        await lab.engine.idle()

        assert gated.order == [1, 2, 3], "who came more than 120 s before is not passed"


async def test_priority_of_those_that_wait_for_a_throttle(tmp_path: Path) -> None:
    throttle = inngest.Throttle(limit=1, period=10_000, burst=0)
    noted = Noted(throttle=throttle, priority=_PAID_FIRST)
    async with running(tmp_path / "engine.db", noted.build) as lab:
        for number, paid in ((1, False), (2, False), (3, True)):
            await lab.send("go", {"n": number, "paid": paid})
    async with running(tmp_path / "engine.db", noted.build, clock=lab.clock) as again:
        await again.pass_time(20)

    assert noted.numbers == [1, 3, 2], "also over a restart"
