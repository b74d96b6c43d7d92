"""Pause and resume: events queue up, nothing starts, what has begun goes on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.clock import ManualClock
from app.engine.errors import UnknownFunction
from tests.engine.lab import Lab, running
from tests.engine.workshop import GO, Noted


class Naps:
    """A function that sleeps for a minute, and one that invokes it."""

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="naps", trigger=GO)
        async def naps(ctx: inngest.Context) -> Any:
            await ctx.step.sleep("nap", timedelta(seconds=60))
            return ctx.event.data.get("n")

        @client.create_function(fn_id="calls", trigger=inngest.TriggerEvent(event="call"))
        async def calls(ctx: inngest.Context) -> Any:
            return await ctx.step.invoke("one", function=naps, data={"n": "invoked"})

        return [naps, calls]


async def test_events_queue_up_and_what_has_begun_goes_on(tmp_path: Path) -> None:
    clock, path = ManualClock(datetime.now(UTC)), tmp_path / "engine.db"
    async with running(path, Naps().build, clock=clock) as lab:
        await lab.send("go", {"n": 1})
        await lab.engine.pause("rec-naps")
        await lab.engine.pause("rec-naps")
        for number in (2, 3):
            await lab.send("go", {"n": number})
        await lab.pass_time(70, step_s=10)
        assert [(run.status, run.output) for run in await lab.runs_of("rec-naps")] == [("Completed", 1)]
    async with running(path, Naps().build, clock=clock) as lab:
        assert [function.paused for function in await lab.engine.functions()] == [False, True]
        await lab.send("go", {"n": 4})
        assert len(await lab.runs_of("rec-naps")) == 1, "also after a restart, and after its app registered anew"
        await lab.engine.resume("rec-naps")
        await lab.engine.idle()
        await lab.pass_time(70, step_s=10)

        assert [run.output for run in await lab.runs_of("rec-naps")] == [1, 2, 3, 4], "in order of arrival"
        assert await lab.engine.store.rows("SELECT * FROM held") == []


async def test_a_start_planned_for_later_waits_too(tmp_path: Path) -> None:
    noted = Noted()
    async with running(tmp_path / "engine.db", noted.build) as lab:
        await lab.send("go", {"n": 1}, ts=lab.engine.now_ms() + 10_000)
        await lab.engine.pause("rec-noted")
        await lab.pass_time(20)
        assert noted.numbers == []
        await lab.engine.resume("rec-noted")
        await lab.engine.idle()

        assert noted.numbers == [1]


async def test_an_invocation_waits_for_the_function_that_it_invokes(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", Naps().build) as lab:
        await lab.engine.pause("rec-naps")
        event_id = await lab.send("call")
        await lab.pass_time(100, step_s=20)
        assert (await lab.run_of(event_id)).run.status == "Running"
        await lab.engine.resume("rec-naps")
        await lab.engine.idle()
        await lab.pass_time(70, step_s=10)

        assert (await lab.run_of(event_id)).run.output == "invoked"


async def test_cron_instants_of_a_paused_function_are_skipped(lab: Lab) -> None:
    await lab.engine.pause("rec-cron")
    await lab.pass_time(300, step_s=30)
    assert lab.calls_of("rec-cron") == []
    await lab.engine.resume("rec-cron")
    await lab.pass_time(60, step_s=10)

    assert len(lab.calls_of("rec-cron")) == 1, "no burst of what passed meanwhile"


async def test_an_unknown_function(lab: Lab) -> None:
    with pytest.raises(UnknownFunction, match="no function 'rec-nothing'"):
        await lab.engine.pause("rec-nothing")
