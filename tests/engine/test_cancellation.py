"""Cancelling runs: by event, by id, while a step is in flight, and what it leaves."""

import asyncio
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.engine.errors import UnknownRun
from tests.engine.lab import Lab, running


class Gate:
    """A function whose first step waits until it is let go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.leave = asyncio.Event()
        self.ran: list[str] = []

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="gate",
            trigger=inngest.TriggerEvent(event="go"),
            singleton=inngest.Singleton(key="event.data.key", mode="cancel"),
            cancel=[inngest.Cancel(event="stop", if_exp="async.data.key == event.data.key")],
        )
        async def gate(ctx: inngest.Context) -> str:
            async def slow() -> str:
                self.ran.append(f"slow {ctx.event.data.get('m')}")
                self.entered.set()
                await self.leave.wait()
                return "slow"

            async def after() -> str:
                self.ran.append("after")
                return "after"

            await ctx.step.run("slow", slow)
            return await ctx.step.run("after", after)

        return [gate]


@pytest.mark.parametrize("how", ["event", "id", "singleton"])
async def test_a_step_in_flight_finishes_and_nothing_later_runs(tmp_path: Path, how: str) -> None:
    gate = Gate()
    async with running(tmp_path / "engine.db", gate.build) as lab:
        (event_id,) = await lab.engine.send([{"name": "go", "data": {"key": "k", "m": 1}}])
        await gate.entered.wait()
        run_id = (await lab.run_of(event_id)).run.id
        if how == "event":
            await lab.engine.send([{"name": "stop", "data": {"key": "other"}}])
            assert (await lab.run_of(event_id)).run.status == "Running"
            await lab.engine.send([{"name": "stop", "data": {"key": "k"}}])
        elif how == "id":
            await lab.engine.cancel(run_id)
        else:
            await lab.engine.send([{"name": "go", "data": {"key": "k", "m": 2}}])
        assert (await lab.run_of(event_id)).run.status == "Cancelled", "at once, beside the step in flight"

        gate.leave.set()
        await lab.engine.idle()

        run = await lab.engine.run(run_id)
        assert run.run.status == "Cancelled"
        assert run.steps == (), "the result of the step in flight is dropped"
        assert gate.ran == (["slow 1", "slow 2", "after"] if how == "singleton" else ["slow 1"])


async def test_cancelling_what_is_ended_or_unknown(lab: Lab) -> None:
    run = await lab.run_of(await lab.send("rec/no-steps"))
    await lab.engine.cancel(run.run.id)

    assert (await lab.engine.run(run.run.id)).run.status == "Completed"
    with pytest.raises(UnknownRun, match="There is no run 01ARZ"):
        await lab.engine.cancel("01ARZ3NDEKTSV4RRFFQ69G5FAV")


async def test_a_cancelled_sleeper_stays_cancelled_over_a_restart(tmp_path: Path) -> None:
    from tests.engine.sample_functions import build

    path = tmp_path / "engine.db"
    async with running(path, build) as lab:
        clock, event_id = lab.clock, await lab.send("rec/cancel-me", {"id": 1})
        await lab.send("rec/cancel", {"id": 1})
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(120, step_s=30)
        run = await lab.run_of(event_id)

        assert run.run.status == "Cancelled"
        assert run.steps[0].status == "Cancelled"
        assert lab.calls_of("rec-cancel-me") == []


async def test_a_cancel_event_may_start_its_own_function(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="again",
            trigger=inngest.TriggerEvent(event="again"),
            cancel=[inngest.Cancel(event="again")],
        )
        async def again(ctx: inngest.Context) -> None:
            await ctx.step.sleep("long", 60_000)

        return [again]

    async with running(tmp_path / "engine.db", build) as lab:
        await lab.send("again")
        await lab.send("again")

        assert [run.status for run in await lab.runs_of("rec-again")] == ["Cancelled", "Running"]


async def test_a_cancel_with_a_timeout_acts_only_within_it(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="limited",
            trigger=inngest.TriggerEvent(event="go"),
            cancel=[inngest.Cancel(event="stop", timeout=10_000)],
        )
        async def limited(ctx: inngest.Context) -> None:
            await ctx.step.sleep("long", 600_000)

        return [limited]

    async with running(tmp_path / "engine.db", build) as lab:
        await lab.send("go")
        await lab.pass_time(11, step_s=11)
        await lab.send("go")
        await lab.send("stop")

        assert [run.status for run in await lab.runs_of("rec-limited")] == ["Running", "Cancelled"]
