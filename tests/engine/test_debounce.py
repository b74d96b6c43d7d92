"""Debounce: the last event of a key starts one run once it has been quiet."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import inngest

from app.clock import ManualClock
from tests.engine.lab import running
from tests.engine.workshop import GO, Noted

_SECOND = timedelta(seconds=1)


async def test_every_event_begins_the_quiet_anew_up_to_the_timeout(tmp_path: Path) -> None:
    noted = Noted(debounce=inngest.Debounce(period=2 * _SECOND, timeout=5 * _SECOND))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        for number in range(4):
            await lab.send("go", {"n": number})
            await lab.pass_time(1.5, step_s=0.5)
        assert noted.numbers == [3], "5 s after the first one"
        await lab.send("go", {"n": 9})
        await lab.pass_time(2)
        assert noted.numbers == [3, 9]


async def test_keys_are_quiet_on_their_own(tmp_path: Path) -> None:
    noted = Noted(debounce=inngest.Debounce(period=2 * _SECOND, key="event.data.k"))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        for number, key in enumerate("abab"):
            await lab.send("go", {"n": number, "k": key})
        await lab.pass_time(2)

        assert sorted(noted.numbers) == [2, 3]


async def test_an_older_event_does_not_win(tmp_path: Path) -> None:
    noted = Noted(debounce=inngest.Debounce(period=2 * _SECOND))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        now_ms = lab.engine.now_ms()
        await lab.send("go", {"n": "new"}, ts=now_ms)
        await lab.send("go", {"n": "old"}, ts=now_ms - 1_000)
        await lab.pass_time(3)

        assert noted.numbers == ["new"]


async def test_what_waits_survives_a_restart(tmp_path: Path) -> None:
    noted = Noted(debounce=inngest.Debounce(period=10 * _SECOND, timeout=15 * _SECOND))
    clock, path = ManualClock(datetime.now(UTC)), tmp_path / "engine.db"
    async with running(path, noted.build, clock=clock) as lab:
        await lab.send("go", {"n": 1})
        await lab.pass_time(8)
        await lab.send("go", {"n": 2})
    async with running(path, noted.build, clock=clock) as lab:
        await lab.pass_time(6)
        assert noted.numbers == []
        await lab.pass_time(1)
        assert noted.numbers == [2], "at the time-out, counted from the first event"
        assert await lab.engine.store.rows("SELECT * FROM held") == []
    async with running(path, noted.build, clock=clock) as lab:
        await lab.pass_time(60, step_s=10)
        assert noted.numbers == [2]


async def test_an_invocation_is_not_put_off(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="callee", trigger=inngest.TriggerEvent(event="x"), debounce=inngest.Debounce(period=60_000)
        )
        async def callee(ctx: inngest.Context) -> str:
            return "called"

        @client.create_function(fn_id="caller", trigger=GO)
        async def caller(ctx: inngest.Context) -> Any:
            return await ctx.step.invoke("one", function=callee)

        return [callee, caller]

    async with running(tmp_path / "engine.db", build) as lab:
        assert (await lab.run_of(await lab.send("go"))).run.output == "called"
