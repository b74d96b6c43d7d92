"""Throttle: starts beyond the rate wait, in order, also over a restart."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import inngest

from app.clock import ManualClock
from tests.engine.lab import Lab, running
from tests.engine.workshop import Noted

_SECOND = timedelta(seconds=1)


async def _send(lab: Lab, *numbers: int, key: str = "a") -> None:
    await lab.engine.send([{"name": "go", "data": {"n": number, "k": key}} for number in numbers])
    await lab.engine.idle()


async def test_starts_beyond_the_rate_wait(tmp_path: Path) -> None:
    noted = Noted(throttle=inngest.Throttle(limit=2, period=6 * _SECOND, burst=1))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        await _send(lab, *range(6))
        assert noted.numbers == [0, 1, 2]
        assert [run.status for run in await lab.runs_of("rec-noted")] == ["Completed"] * 3 + ["Scheduled"] * 3
        await lab.pass_time(2.9, step_s=0.1)
        assert noted.numbers == [0, 1, 2]
        await lab.pass_time(0.2, step_s=0.1)
        assert noted.numbers == [0, 1, 2, 3]
        await lab.pass_time(6)

        assert noted.numbers == [0, 1, 2, 3, 4, 5], "none is dropped"


async def test_keys_do_not_wait_for_one_another(tmp_path: Path) -> None:
    noted = Noted(throttle=inngest.Throttle(limit=1, period=60 * _SECOND, burst=0, key="event.data.k"))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        await _send(lab, 1, 2)
        await _send(lab, 3, key="b")

        assert noted.numbers == [1, 3]


async def test_a_restart_forgets_neither_the_rate_nor_the_queue(tmp_path: Path) -> None:
    noted = Noted(throttle=inngest.Throttle(limit=1, period=10 * _SECOND, burst=0))
    clock = ManualClock(datetime.now(UTC))
    async with running(tmp_path / "engine.db", noted.build, clock=clock) as lab:
        await _send(lab, 1, 2, 3)
    async with running(tmp_path / "engine.db", noted.build, clock=clock) as lab:
        await _send(lab, 4)
        assert noted.numbers == [1]
        await lab.pass_time(10)
        assert noted.numbers == [1, 2]
        await lab.pass_time(20)

        assert noted.numbers == [1, 2, 3, 4]


async def test_a_cancelled_start_gives_its_turn_to_the_next(tmp_path: Path) -> None:
    noted = Noted(throttle=inngest.Throttle(limit=1, period=10 * _SECOND, burst=0))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        await _send(lab, 1, 2, 3)
        await lab.engine.cancel((await lab.runs_of("rec-noted"))[1].id)
        await lab.pass_time(10)

        assert noted.numbers == [1, 3]


async def test_only_starts_are_throttled(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[object]]:
        @client.create_function(
            fn_id="steps", trigger=inngest.TriggerEvent(event="go"), throttle=inngest.Throttle(limit=1, period=60_000)
        )
        async def steps(ctx: inngest.Context) -> str:
            for number in range(5):
                await ctx.step.run(f"s{number}", lambda: None)
            return "done"

        return [steps]

    async with running(tmp_path / "engine.db", build) as lab:
        await lab.send("go")

        assert (await lab.runs_of("rec-steps"))[0].output == "done"
