"""A full disk, a locked file, a clock that jumps: clear errors, nothing lost, nothing twice."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.clock import ManualClock
from app.engine.errors import StoreFailed
from tests.engine.lab import Lab, running
from tests.engine.sample_functions import build
from tests.engine.workshop import GO, Noted


async def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, accepted = tmp_path / "engine.db", list[str]()
    async with running(path, build) as lab:
        accepted.append(await lab.send("rec/two-steps"))
        (pages,) = await lab.engine.store.rows("PRAGMA page_count")
        await lab.engine.store.rows(f"PRAGMA max_page_count = {pages[0] + 12}")
        with pytest.raises(StoreFailed, match=r"disk is full|could not be written") as failed:
            for _ in range(100):
                accepted += await lab.engine.send([{"name": "rec/two-steps", "data": {"text": "x" * 3_000}}])
                await lab.engine.idle()
        assert not lab.engine.healthy
        assert "disk is full" in caplog.text + str(failed.value)
        assert "restart the service when the disk is well" in caplog.text
    async with running(path, build, clock=lab.clock) as lab:
        await lab.engine.idle()
        runs = [await lab.run_of(event_id) for event_id in accepted]

        assert len(accepted) > 2
        assert {run.run.status for run in runs} == {"Completed"}
        assert all([step.name for step in run.steps] == ["think", "think"] for run in runs)


async def test_a_locked_file_is_named_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, build) as lab:
        event_id = await lab.send("rec/cancel-me", {"id": 1})
        await lab.engine.store.rows("PRAGMA busy_timeout = 20")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="database is locked"):
            await lab.engine.send([{"name": "rec/no-steps"}])
        other.execute("ROLLBACK")
        other.close()
    async with running(path, build, clock=lab.clock) as lab:
        await lab.pass_time(70, step_s=10)
        assert (await lab.run_of(event_id)).run.output == "no"
        assert len(await lab.runs_of("rec-no-steps")) == 0, "what was refused has no effect"


class Timers:
    """A function that fails once, waits and sleeps; one that is put off; one with a schedule."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.until = ""

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="fails", trigger=GO)
        async def fails(ctx: inngest.Context) -> str:
            self.attempts.append(ctx.attempt)
            if ctx.attempt == 0:
                raise RuntimeError("once")
            return "fine"

        @client.create_function(fn_id="waits", trigger=GO)
        async def waits(ctx: inngest.Context) -> Any:
            return await ctx.step.wait_for_event("w", event="never", timeout=timedelta(seconds=60))

        @client.create_function(fn_id="sleeps", trigger=GO)
        async def sleeps(ctx: inngest.Context) -> str:
            await ctx.step.sleep_until("s", datetime.fromisoformat(self.until))
            return "awake"

        return [fails, waits, sleeps, *Noted(debounce=inngest.Debounce(period=60_000)).build(client)]


async def _ends(lab: Lab) -> dict[str, str]:
    return {run.function.removeprefix("rec-"): run.status for run in await lab.engine.runs()}


@pytest.mark.parametrize("restart", [False, True])
async def test_a_clock_set_back_stalls_nothing_that_waits_for_a_length(tmp_path: Path, restart: bool) -> None:
    clock, path, timers = ManualClock(datetime.now(UTC)), tmp_path / "engine.db", Timers()
    timers.until = (clock.now() + timedelta(seconds=60)).isoformat()
    async with running(path, timers.build, clock=clock) as lab:
        await lab.send("go")
        clock.advance(-86_400)
        await lab.engine.idle()
        if not restart:
            await lab.pass_time(70, step_s=5)
    if restart:
        async with running(path, timers.build, clock=clock) as lab:
            await lab.pass_time(70, step_s=5)
            ends = await _ends(lab)
    else:
        async with running(path, timers.build, clock=clock) as lab:
            ends = await _ends(lab)
    assert ends == {"fails": "Completed", "waits": "Completed", "noted": "Completed", "sleeps": "Running"}
    assert timers.attempts == [0, 1]
    clock.advance(86_400)
    async with running(path, timers.build, clock=clock) as lab:
        await lab.pass_time(10)
        assert (await _ends(lab))["sleeps"] == "Completed", "a moment is a moment"


async def test_a_clock_set_forward_fires_everything_once(tmp_path: Path) -> None:
    clock, timers = ManualClock(datetime.now(UTC)), Timers()
    timers.until = (clock.now() + timedelta(seconds=60)).isoformat()
    async with running(tmp_path / "engine.db", timers.build, clock=clock) as lab:
        await lab.send("go")
        clock.advance(86_400)
        await lab.engine.idle()
        clock.advance(-86_400)
        await lab.pass_time(200, step_s=20)

        assert set((await _ends(lab)).values()) == {"Completed"}
        assert len(await lab.engine.runs()) == 4
        assert timers.attempts == [0, 1]


async def test_cron_instants_are_not_repeated_by_a_small_step_back(lab: Lab) -> None:
    await lab.pass_time(120, step_s=20)
    before = [call.body["event"]["id"] for call in lab.calls_of("rec-cron")]
    lab.clock.advance(-600)
    await lab.pass_time(720, step_s=20)

    instants = [call.body["event"]["id"] for call in lab.calls_of("rec-cron")]
    assert len(instants) == len(set(instants)) == len(before) + 2


async def test_cron_goes_by_the_new_time_after_a_large_step_back(lab: Lab) -> None:
    lab.clock.advance(86_400 * 300)
    await lab.engine.idle()
    lab.clock.advance(-86_400 * 300)
    await lab.engine.idle()
    before = len(lab.calls_of("rec-cron"))
    await lab.pass_time(180, step_s=20)

    assert len(lab.calls_of("rec-cron")) == before + 3, "a clock that was wrong once does not stop it for a year"


async def test_a_rate_recovers_from_a_clock_that_was_ahead(tmp_path: Path) -> None:
    noted = Noted(rate_limit=inngest.RateLimit(limit=1, period=timedelta(minutes=1)))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        lab.clock.advance(86_400)
        await lab.send("go", {"n": 1})
        lab.clock.advance(-86_400)
        await lab.send("go", {"n": 2})
        await lab.pass_time(60)
        await lab.send("go", {"n": 3})

        assert noted.numbers == [1, 3]
