"""An engine that is killed again and again over one workload, on one file.

Started as a script with `folder`, `kills` and `seed`: after the expensive imports it forks one child after the other,
each of which opens the engine, sends events, works, and dies (SIGKILL at a failpoint, or a kernel timer at a random
moment). The last child is left alone until every run has ended.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import inngest  # noqa: E402

from app.engine.expressions import Expression  # noqa: E402
from tests.engine.crashing import check_commits, die_at  # noqa: E402
from tests.engine.lab import Lab, private_app  # noqa: E402

#: The engine's clock runs this much faster than the real one, so that a minute of cron is short.
SPEED = 20.0
STEPS = ("first", "made", "nap", "flaky", "call", "ask", "answer", "last")
_OPEN_AT_MOST = 25


class FastClock:
    """The same time in every child: `SPEED` times the real one since the test began."""

    def __init__(self, began: float) -> None:
        self._began = began

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._began + (time.time() - self._began) * SPEED, UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / SPEED)


class Workload:
    """Steps, a sleep, a wait, an invocation, a retry, a cron and a singleton; every step body leaves its token."""

    def __init__(self) -> None:
        self.folder, self.check = Path(), die_at("", 0)
        self.lab: Lab | None = None
        private_app(self.build)

    def note(self, file: str, *parts: Any) -> None:
        with (self.folder / file).open("a") as opened:
            opened.write(json.dumps(parts) + "\n")

    async def token(self, run: str, step: str) -> str:
        token = f"{step}-{os.getpid()}-{time.monotonic_ns()}"
        self.check("before effect")
        self.note("effects", run, step, token)
        self.check("after effect")
        return token

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="child", trigger=inngest.TriggerEvent(event="child"), retries=200)
        async def child(ctx: inngest.Context) -> Any:
            return await ctx.step.run("inner", self.token, ctx.run_id, "inner")

        @client.create_function(fn_id="work", trigger=inngest.TriggerEvent(event="work"), retries=200)
        async def work(ctx: inngest.Context) -> Any:
            return await self._work(ctx, child)

        @client.create_function(fn_id="tick", trigger=inngest.TriggerCron(cron="* * * * *"), retries=200)
        async def tick(ctx: inngest.Context) -> Any:
            return ctx.event.id

        @client.create_function(
            fn_id="single", trigger=inngest.TriggerEvent(event="single"), retries=200,
            singleton=inngest.Singleton(mode="cancel", key="event.data.key"),
        )  # fmt: skip
        async def single(ctx: inngest.Context) -> Any:
            await ctx.step.run("one", self.token, ctx.run_id, "one")
            await ctx.step.sleep_until("hold", ctx.event.data["until"] and _moment(ctx.event.data["until"]))
            return ctx.event.data["n"]

        return [child, work, tick, single]

    async def _work(self, ctx: inngest.Context, child: inngest.Function[Any]) -> Any:
        number, run = ctx.event.data["n"], ctx.run_id

        async def flaky() -> str:
            token = await self.token(run, "flaky")
            if ctx.attempt == 0:
                raise inngest.RetryAfterError("not yet", self._now() + timedelta(milliseconds=200))
            return token

        async def wake() -> str:
            return (self._now() + timedelta(seconds=2)).isoformat()

        async def ask() -> str:
            token = await self.token(run, "ask")
            await self._engine.send([{"name": "answer", "data": {"n": number}, "id": f"answer-{number}"}])
            return token

        first = await ctx.step.run("first", self.token, run, "first")
        await ctx.step.sleep_until("nap", _moment(await ctx.step.run("made", wake)))
        retried = await ctx.step.run("flaky", flaky)
        called = await ctx.step.invoke("call", function=child)
        asked, answer = await ctx.group.parallel(
            (
                lambda: ctx.step.run("ask", ask),
                lambda: ctx.step.wait_for_event(
                    "answer", event="answer", if_exp="event.data.n == async.data.n", timeout=timedelta(days=1)
                ),
            )
        )
        last = await ctx.step.run("last", self.token, run, "last")
        return {"n": number, "first": first, "flaky": retried, "call": called, "ask": asked,
                "answer": answer and answer.data["n"], "last": last}  # fmt: skip

    @property
    def _engine(self) -> Any:
        assert self.lab is not None
        return self.lab.engine

    def _now(self) -> datetime:
        return self._engine._clock.now()  # type: ignore[no-any-return]


def _moment(text: Any) -> datetime:
    return datetime.fromisoformat(str(text))


async def live(work: Workload, began: float, death: tuple[str, int] | None, number: int) -> None:
    """One life of the engine. `death` is a failpoint and how often it is passed; None: live until all is done."""
    work.lab = lab = Lab(work.folder / "engine.db", work.build, clock=FastClock(began))  # type: ignore[arg-type]
    if death is not None:
        work.check = die_at(*death)
    check_commits(lambda point: work.check(point))
    await lab.start()
    work.note("lives", "up", lab.engine.now_ms())
    if death is not None:
        await _send(work, lab, number)
        await asyncio.sleep(60)
    await _settle(lab)
    await lab.engine.stop()


async def _settle(lab: Lab) -> None:
    """Look from time to time whether every run has ended but those that cron has just begun."""
    while any(run.function != "rec-tick" for run in await _open(lab)):  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def _send(work: Workload, lab: Lab, number: int) -> None:
    if len(await _open(lab)) > _OPEN_AT_MOST:
        return
    until = (lab.clock.now() + timedelta(seconds=3)).isoformat()
    for part, event in enumerate(
        (
            {"name": "work", "data": {"n": 2 * number}},
            {"name": "work", "data": {"n": 2 * number + 1}},
            {"name": "single", "data": {"n": number, "key": number // 5, "until": until}},
        )
    ):
        work.note("sent", number, part)
        (event_id,) = await lab.engine.send([event])
        work.note("accepted", event["name"], event_id, event["data"])


async def _open(lab: Lab) -> list[Any]:
    return [run for run in await lab.engine.runs(limit=1000) if not run.ended]


def _death(chance: random.Random) -> tuple[tuple[str, int], float]:
    """A failpoint with a count, and seconds after which a timer kills anyway."""
    point = chance.choice(["before commit", "after commit", "before effect", "after effect", "timer", "timer"])
    return (point, chance.randint(1, 40)), chance.uniform(0.01, 0.35)


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    Expression.compile("true")  # builds the grammar once, for all children
    work, chance, began = Workload(), random.Random(seed), time.time()  # noqa: S311
    work.folder = folder
    for number in range(kills + 1):
        death, seconds = _death(chance)
        child = os.fork()
        if child == 0:
            if number < kills:
                signal.setitimer(signal.ITIMER_REAL, seconds)  # ends the process wherever it is, in C code as well
            last = asyncio.wait_for(live(work, began, death if number < kills else None, number), 120)
            asyncio.run(last)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        work.note("lives", "down", round(FastClock(began).now().timestamp() * 1000))
        sys.stdout.write(f"{os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
