"""kill -9 at every point of a run, in a real process: nothing is lost, nothing memoized is done again."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import inngest
import pytest

from tests.engine.crashing import STEPS, builder
from tests.engine.lab import running

_ROOT = Path(__file__).parents[2]
_EVENT = {"name": "work", "data": {}}
_COMMITS = 17
_POINTS = [
    ("sent", 1),
    *((f"{when} effect {step}", 1) for step in range(STEPS) for when in ("before", "after")),
    *((f"{when} commit", count) for count in range(1, _COMMITS) for when in ("before", "after")),
]


def crash(cases: list[dict[str, Any]]) -> list[str]:
    """Run the cases in a child process; returns how each ended."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.crashing", *map(json.dumps, cases)],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def case(path: Path, point: str, count: int, *, event: Any = _EVENT) -> dict[str, Any]:
    return {
        "path": str(path / "engine.db"), "log": str(path / "log"), "point": point, "count": count, "event": event,
    }  # fmt: skip


async def resume(path: Path) -> tuple[list[Any], list[str]]:
    """Open the file again, let everything end; returns the runs and the log of effects."""
    log = path / "log"
    async with running(path / "engine.db", builder(lambda: log, lambda point: None)) as lab:
        await lab.pass_time(3)
        runs = [await lab.engine.run(run.id) for run in await lab.engine.runs()]
    return runs, log.read_text().splitlines() if log.exists() else []


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], tuple[Path, str]]:
    folders = {point: tmp_path_factory.mktemp("crash") for point in _POINTS}
    ends = crash([case(folder, *point) for point, folder in folders.items()])
    return {point: (folder, end) for (point, folder), end in zip(folders.items(), ends, strict=True)}


@pytest.mark.parametrize("point", _POINTS, ids=[f"{name} {count}" for name, count in _POINTS])
async def test_kill_and_resume(crashed: dict[tuple[str, int], tuple[Path, str]], point: tuple[str, int]) -> None:
    folder, end = crashed[point]
    assert end == "killed", "the point was reached"

    runs, log = await resume(folder)

    if not runs:
        assert point == ("before commit", 1), "only an event that was never acknowledged may be lost"
        return
    work = [run for run in runs if run.run.function == "rec-work"]
    assert len(work) == 1, "one event, one run"
    assert work[0].run.status == "Completed"
    assert work[0].run.output == list(range(STEPS))
    effects = Counter(line for line in log if line != "told")
    assert set(effects) == {f"{step} attempt 0" for step in range(STEPS)}, "interruptions are no attempts"
    assert sum(effects.values()) <= STEPS + 2, "only calls that were in flight are made again"
    assert Counter(log)["told"] in (1, 2)
    assert len([run for run in runs if run.run.function == "rec-told"]) == 1
    assert len([run for run in runs if run.run.function == "rec-child"]) == 1, "invoked once"


async def test_the_third_interruption_counts_as_an_attempt(tmp_path: Path) -> None:
    first = case(tmp_path, "after effect 1", 1)
    again = case(tmp_path, "after effect 1", 1, event=None)
    ends = await asyncio.to_thread(crash, [first, *[again] * 5])
    assert ends == ["killed"] * 6

    attempts = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("1 ")]
    assert attempts == [f"1 attempt {attempt}" for attempt in (0, 0, 0, 1, 2, 3)]

    runs, log = await resume(tmp_path)
    work = next(run for run in runs if run.run.function == "rec-work")
    assert work.run.status == "Failed", "a step that kills its process ends"
    assert work.run.output["name"] == "Interrupted"
    assert log.count("0 attempt 0") == 1, "the step before it was memoized"
    assert "told" in log


async def test_a_calm_stop_is_no_interruption(tmp_path: Path) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    attempts: list[int] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="slow", trigger=inngest.TriggerEvent(event="go"))
        async def slow(ctx: inngest.Context) -> str:
            async def body() -> str:
                attempts.append(ctx.attempt)
                entered.set()
                await leave.wait()
                return "done"

            return await ctx.step.run("s", body)

        return [slow]

    for start in range(5):
        entered.clear()
        async with running(tmp_path / "engine.db", build) as lab:
            if start == 0:
                await lab.engine.send([{"name": "go"}])
            await entered.wait()
    leave.set()
    async with running(tmp_path / "engine.db", build) as lab:
        await lab.engine.idle()
        (run,) = await lab.engine.runs()

    assert run.output == "done"
    assert attempts == [0] * 6
