"""Batches: events collected into one run, full or after a time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import inngest

from app.clock import ManualClock
from tests.engine.lab import running
from tests.engine.workshop import Noted

_SECOND = timedelta(seconds=1)


async def test_keys_and_conditions(tmp_path: Path) -> None:
    batch = inngest.Batch(max_size=2, timeout=3 * _SECOND, key="event.data.k", if_exp="event.data.alone != true")
    noted = Noted(batch_events=batch)
    async with running(tmp_path / "engine.db", noted.build) as lab:
        for number, key in enumerate("aba"):
            await lab.send("go", {"n": number, "k": key})
        await lab.send("go", {"n": 9, "k": "a", "alone": True})

        assert [[event["n"] for event in events] for events in noted.seen] == [[0, 2], [9]]
        await lab.pass_time(3)
        assert noted.seen[2] == [{"n": 1, "k": "b"}]


async def test_the_time_counts_from_the_first_event(tmp_path: Path) -> None:
    noted = Noted(batch_events=inngest.Batch(max_size=9, timeout=3 * _SECOND))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        for number in range(4):
            await lab.send("go", {"n": number})
            await lab.pass_time(1)

        assert [[event["n"] for event in events] for events in noted.seen] == [[0, 1, 2]]


async def test_a_batch_survives_a_restart_before_and_after_its_start(tmp_path: Path) -> None:
    attempts: list[int] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[object]]:
        @client.create_function(
            fn_id="slow", trigger=inngest.TriggerEvent(event="go"),
            batch_events=inngest.Batch(max_size=5, timeout=10 * _SECOND),
        )  # fmt: skip
        async def slow(ctx: inngest.Context) -> object:
            attempts.append(len(ctx.events))
            await ctx.step.sleep("nap", 5 * _SECOND)
            return [event.data["n"] for event in ctx.events]

        return [slow]

    clock, path = ManualClock(datetime.now(UTC)), tmp_path / "engine.db"
    async with running(path, build, clock=clock) as lab:
        await lab.send("go", {"n": 1})
    async with running(path, build, clock=clock) as lab:
        last = await lab.send("go", {"n": 2})
        await lab.pass_time(10)
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(6)

        assert (await lab.run_of(last)).run.output == [1, 2]
        assert attempts == [2, 2]
        (run,) = await lab.engine.runs()
        async with lab.http() as client:
            events = (await client.get(f"/v0/runs/{run.id}/batch")).json()
        assert [event["data"]["n"] for event in events] == [1, 2]


async def test_pruning_takes_a_batch_and_its_events(tmp_path: Path) -> None:
    noted = Noted(batch_events=inngest.Batch(max_size=2, timeout=60 * _SECOND))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        for number in range(3):
            await lab.send("go", {"n": number})
        lab.clock.advance(86_400 * 15)
        await lab.engine.idle()
        assert noted.numbers == [0, 2]
        await lab.engine.prune()

        left = await lab.engine.store.rows("SELECT body FROM events WHERE source = 0")
        assert len(left) == 1, "the one whose run has just ended"
        assert await lab.engine.store.rows("SELECT * FROM run_events") == []
