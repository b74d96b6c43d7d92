"""Runs an engine in child processes that kill themselves (SIGKILL) at a named point.

Started as a script: reads cases from its arguments, one JSON object each, and forks one child per case after the
expensive imports, before any thread or event loop exists. A case: `path` of the engine's file, `log` of effects,
`point` and `count`, and `event` to send (or null to go on with what is open).
"""

import asyncio
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import inngest  # noqa: E402

from app.clock import SystemClock  # noqa: E402
from app.engine.expressions import Expression  # noqa: E402
from app.engine.writer import Writer  # noqa: E402
from tests.engine.lab import Lab, private_app  # noqa: E402

STEPS = 7


def builder(
    log: Callable[[], Path], fail: Callable[[str], None]
) -> Callable[[inngest.Inngest], list[inngest.Function[Any]]]:
    """A function whose every step leaves a line in `log`; `fail` may end the process at a point."""

    def note(line: str) -> None:
        with log().open("a") as file:
            file.write(line + "\n")

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="child", trigger=inngest.TriggerEvent(event="child"))
        async def child(ctx: inngest.Context) -> Any:
            async def body() -> Any:
                number = ctx.event.data["number"]
                fail(f"before effect {number}")
                note(f"{number} attempt {ctx.attempt}")
                fail(f"after effect {number}")
                return number

            return await ctx.step.run("c", body)

        @client.create_function(fn_id="work", trigger=inngest.TriggerEvent(event="work"), retries=3)
        async def work(ctx: inngest.Context) -> Any:
            async def body(number: int) -> int:
                fail(f"before effect {number}")
                note(f"{number} attempt {ctx.attempt}")
                fail(f"after effect {number}")
                return number

            first = [await ctx.step.run("s", body, 0), await ctx.step.run("s", body, 1)]
            await ctx.step.sleep("nap", 10)
            rest = await ctx.group.parallel((lambda: ctx.step.run("p", body, 2), lambda: ctx.step.run("q", body, 3)))
            invoked = await ctx.step.invoke("call", function=child, data={"number": 4})
            raced = await ctx.group.parallel(
                (lambda: ctx.step.run("r", body, 5), lambda: ctx.step.run("s", body, 6)),
                parallel_mode=inngest.ParallelMode.RACE,
            )
            return [*first, *rest, invoked, *raced]

        @client.create_function(
            fn_id="told",
            trigger=inngest.TriggerEvent(
                event="inngest/function.finished", expression="event.data.function_id == 'rec-work'"
            ),
        )
        async def told(ctx: inngest.Context) -> None:
            note("told")

        return [child, work, told]

    return build


def die_at(point: str, count: int) -> Callable[[str], None]:
    """Ends the process the `count`-th time it comes by `point`."""
    left = [count]

    def check(here: str) -> None:
        if here == point:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return check


def check_commits(check: Callable[[str], None]) -> None:
    """Let each change pass its points in the writer's thread; each commits alone, so that their number is the same."""
    commit = Writer._commit

    def checked(self: Writer, connection: Any, writes: list[Any]) -> None:
        for write in writes:
            check("before commit")
            commit(self, connection, [write])
            check("after commit")

    Writer._commit = checked  # type: ignore[method-assign]


class Child:
    """What a forked child works on; the app is built once, before any fork."""

    def __init__(self) -> None:
        self.log = Path()
        self.check: Callable[[str], None] = lambda point: None
        self.build = builder(lambda: self.log, lambda point: self.check(point))
        private_app(self.build)


async def run_case(child: Child, case: dict[str, Any]) -> None:
    check = child.check = die_at(case["point"], case["count"])
    child.log = Path(case["log"])
    lab = Lab(Path(case["path"]), child.build, clock=SystemClock())  # type: ignore[arg-type]
    await lab.start()
    check_commits(check)
    check("started")
    if case["event"]:
        await lab.engine.send([case["event"]])
        check("sent")
    while True:
        await lab.engine.idle()
        open_runs = [run for run in await lab.engine.runs() if not run.ended]
        if not open_runs:
            break
        await asyncio.sleep(0.005)
    await lab.engine.stop()


def main() -> None:
    Expression.compile("true")  # builds the grammar once, for all children
    prepared = Child()
    for case in map(json.loads, sys.argv[1:]):
        child = os.fork()
        if child == 0:
            asyncio.run(asyncio.wait_for(run_case(prepared, case), 30))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{'killed' if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
