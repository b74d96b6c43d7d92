"""Rate limit and idempotency: what comes too soon starts nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import inngest

from app.clock import ManualClock
from tests.engine.lab import running
from tests.engine.workshop import Noted

_MINUTE = timedelta(minutes=1)


async def test_the_period_and_the_key(tmp_path: Path) -> None:
    noted = Noted(rate_limit=inngest.RateLimit(limit=1, period=_MINUTE, key="event.data.k"))
    clock, path = ManualClock(datetime.now(UTC)), tmp_path / "engine.db"
    async with running(path, noted.build, clock=clock) as lab:
        for number, key in enumerate(("a", "a", "b")):
            await lab.send("go", {"n": number, "k": key})
        assert noted.numbers == [0, 2]
    clock.advance(30)
    async with running(path, noted.build, clock=clock) as lab:
        await lab.send("go", {"n": 3, "k": "a"})
        assert noted.numbers == [0, 2], "also after a restart"
        clock.advance(30)
        await lab.send("go", {"n": 4, "k": "a"})
        assert noted.numbers == [0, 2, 4]


async def test_a_false_key_is_not_limited(tmp_path: Path) -> None:
    noted = Noted(rate_limit=inngest.RateLimit(limit=1, period=_MINUTE, key="event.data.limited"))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        for number in range(3):
            await lab.send("go", {"n": number, "limited": False})

        assert noted.numbers == [0, 1, 2]


async def test_idempotency(tmp_path: Path) -> None:
    noted = Noted(idempotency="event.data.key")
    clock, path = ManualClock(datetime.now(UTC)), tmp_path / "engine.db"
    async with running(path, noted.build, clock=clock) as lab:
        for number, key in enumerate(("a", "b", "a")):
            await lab.send("go", {"n": number, "key": key})
    async with running(path, noted.build, clock=clock) as lab:
        await lab.send("go", {"n": 3, "key": "a"})
        assert noted.numbers == [0, 1]
        clock.advance(86_400)
        await lab.send("go", {"n": 4, "key": "a"})

        assert noted.numbers == [0, 1, 4], "after 24 hours it counts again"


async def test_an_invocation_that_is_limited_fails_its_step(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="callee", trigger=inngest.TriggerEvent(event="callee"),
            rate_limit=inngest.RateLimit(limit=1, period=_MINUTE),
        )  # fmt: skip
        async def callee(ctx: inngest.Context) -> str:
            return "called"

        @client.create_function(fn_id="caller", trigger=inngest.TriggerEvent(event="go"), retries=0)
        async def caller(ctx: inngest.Context) -> Any:
            first = await ctx.step.invoke("one", function=callee)
            try:
                await ctx.step.invoke("two", function=callee)
            except Exception as error:
                return [first, str(error)]

        return [callee, caller]

    async with running(tmp_path / "engine.db", build) as lab:
        run = await lab.run_of(await lab.send("go"))

    assert run.run.output[0] == "called"
    assert "one of its policies skipped it" in run.run.output[1]


async def test_pruning_forgets_rates_that_are_over(tmp_path: Path) -> None:
    noted = Noted(rate_limit=inngest.RateLimit(limit=1, period=_MINUTE, key="event.data.k"))
    async with running(tmp_path / "engine.db", noted.build) as lab:
        await lab.send("go", {"k": "a"})
        lab.clock.advance(61)
        await lab.send("go", {"k": "b"})
        await lab.engine.prune()

        assert [row["key"] for row in await lab.engine.store.rows("SELECT key FROM rates")] == ['"b"']
