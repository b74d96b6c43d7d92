"""Time-outs: runs that do not start or finish in time are cancelled, and told of as recorded."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import inngest

from app.clock import ManualClock
from tests.engine.lab import running
from tests.engine.workshop import Gated, until


async def test_start_counts_until_the_first_call(tmp_path: Path) -> None:
    gated = Gated(concurrency=[inngest.Concurrency(limit=1)], timeouts=inngest.Timeouts(start=timedelta(seconds=10)))
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await lab.engine.send([{"name": "gated", "data": {"n": number}} for number in (1, 2)])
        await until(lambda: gated.inside == [1])
        lab.clock.advance(11)
        await until(lambda: len(lab.engine._core.live.runs) == 1)
        gated.let_go(1, 2)
        await lab.engine.idle()

        first, second = await lab.runs_of("rec-gated")
        assert first.status == "Completed", "it had started in time"
        assert (second.status, second.reason) == ("Cancelled", "It did not start within 10 s.")
        assert gated.order == [1]


async def test_timeouts_over_a_restart(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="naps", trigger=inngest.TriggerEvent(event="go"),
            timeouts=inngest.Timeouts(finish=timedelta(seconds=10)),
        )  # fmt: skip
        async def naps(ctx: inngest.Context) -> str:
            await ctx.step.sleep("nap", timedelta(seconds=int(str(ctx.event.data["s"]))))
            return "awake"

        return [naps]

    clock, path = ManualClock(datetime.now(UTC)), tmp_path / "engine.db"
    async with running(path, build, clock=clock) as lab:
        await lab.send("go", {"s": 100})
        await lab.send("go", {"s": 5})
        await lab.pass_time(5)
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(4)
        assert [run.status for run in await lab.runs_of("rec-naps")] == ["Running", "Completed"]
        await lab.pass_time(1)
        assert [run.status for run in await lab.runs_of("rec-naps")] == ["Cancelled", "Completed"]
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(200, step_s=20)
        assert [run.status for run in await lab.runs_of("rec-naps")] == ["Cancelled", "Completed"]


async def test_a_start_planned_for_later_is_not_late_before_its_time(tmp_path: Path) -> None:
    gated = Gated(timeouts=inngest.Timeouts(start=timedelta(seconds=10)))
    gated.let_go(1)
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await lab.send("gated", {"n": 1}, ts=lab.engine.now_ms() + 60_000)
        await lab.pass_time(61, step_s=5)

        assert [run.status for run in await lab.runs_of("rec-gated")] == ["Completed"]
