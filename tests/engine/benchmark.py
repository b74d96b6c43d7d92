"""What the engine costs, measured on a real file and printed as JSON; run by `moab bench engine`.

A step's time is from the first line of one step's body to the first line of the next. The engine's share is the
time from the end of one call of the SDK to the beginning of the next; the disk's flush, in it once, is told beside it.
"""

import asyncio
import hashlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
import warnings
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import inngest  # noqa: E402

from app.clock import SystemClock  # noqa: E402
from app.engine.ids import encode_ulid  # noqa: E402
from app.engine.store import Store  # noqa: E402
from app.engine.writer import Statement  # noqa: E402
from tests.engine.lab import Lab  # noqa: E402

STEPS, BYTES = 50, 2_000
ROUNDS, STARTS, BURSTS = 8, 100, 4
RUNS, RUN_STEPS = 50, 5
LONG = 1_000
FLUSHES, FLUSH_BYTES = 200, 16_000
SLEEPERS, IDLE_S, SPREAD_S = 10_000, 3.0, 40.0
_AT = (1, 100, 1_000)


class Functions:
    """The functions that are timed; `times` are the moments at which step bodies begin."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.late: list[float] = []

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        async def body() -> str:
            self.times.append(time.perf_counter())
            return "x" * BYTES

        @client.create_function(fn_id="steps", trigger=inngest.TriggerEvent(event="steps"))
        async def steps(ctx: inngest.Context) -> None:
            for number in range(int(str(ctx.event.data["steps"]))):
                await ctx.step.run(f"s{number}", body)

        @client.create_function(fn_id="sleeper", trigger=inngest.TriggerEvent(event="sleep"))
        async def sleeper(ctx: inngest.Context) -> None:
            await ctx.step.sleep_until("s", datetime.fromisoformat(str(ctx.event.data["until"])))
            self.late.append(time.time() - float(str(ctx.event.data["at"])))

        return [steps, sleeper]


class Timed:
    """An ASGI wrapper that notes when each call of the SDK begins and ends."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.calls: list[tuple[float, float]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began = time.perf_counter()
        await self._app(scope, receive, send)
        self.calls.append((began, time.perf_counter()))

    def gaps_ms(self) -> list[float]:
        """Between one call and the next: the engine's share of each step."""
        return [(after[0] - before[1]) * 1000 for before, after in zip(self.calls, self.calls[1:], strict=False)]


async def steps_ms(lab: Lab, functions: Functions) -> float:
    """The median, over rounds, of the mean time between two steps of a run of 50."""
    means = []
    for _ in range(ROUNDS):
        functions.times.clear()
        await lab.engine.send([{"name": "steps", "data": {"steps": STEPS}}])
        await lab.engine.idle()
        means.append((functions.times[-1] - functions.times[0]) / (STEPS - 1) * 1000)
    return statistics.median(means[1:])


async def start_ms(lab: Lab, functions: Functions) -> float:
    """The median from before `send` to the first line of the first step."""
    taken = []
    for _ in range(STARTS):
        functions.times.clear()
        sent = time.perf_counter()
        await lab.engine.send([{"name": "steps", "data": {"steps": 1}}])
        await lab.engine.idle()
        taken.append((functions.times[0] - sent) * 1000)
    return statistics.median(taken)


async def burst(lab: Lab) -> float:
    """Steps a second: 50 runs of 5 steps, sent at once."""
    best = 0.0
    for _ in range(BURSTS):
        began = time.perf_counter()
        await lab.engine.send([{"name": "steps", "data": {"steps": RUN_STEPS}}] * RUNS)
        await lab.engine.idle()
        best = max(best, RUNS * RUN_STEPS / (time.perf_counter() - began))
    return best


async def shares(lab: Lab, timed: Timed) -> dict[str, float]:
    """The engine's share at the first, the hundredth and the thousandth step of one run: medians around them."""
    for steps in (STEPS, LONG):  # the first run warms up, as with the other figures
        timed.calls.clear()
        await lab.engine.send([{"name": "steps", "data": {"steps": steps}}])
        await lab.engine.idle()
    gaps = timed.gaps_ms()
    around = {at: gaps[max(0, at - 20) : at + 20] for at in _AT}
    return {f"engine_share_ms_{at}": round(statistics.median(around[at]), 3) for at in _AT}


def flush_ms(folder: Path) -> float:
    """The median time in which this disk takes in what a step writes, in a file that gets no longer."""
    taken, page = [], b"x" * FLUSH_BYTES
    with (folder / "flush").open("wb", buffering=0) as file:
        file.write(bytes(FLUSH_BYTES * FLUSHES))
        os.fsync(file.fileno())
        for number in range(FLUSHES):
            began = time.perf_counter()
            os.pwrite(file.fileno(), page, number * FLUSH_BYTES)
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


async def fill(path: Path, wake: float) -> None:
    """A file with ten thousand sleeping runs, as an earlier process would have left it."""
    store, function, step = Store(path), "rec-sleeper", hashlib.sha1(b"s", usedforsecurity=False).hexdigest()
    await store.open(0)
    statements: list[Statement] = []
    for number in range(SLEEPERS):
        moment = wake + number * SPREAD_S / SLEEPERS
        ulid = encode_ulid((round(time.time() * 1000) << 80) + number)
        data = {"until": _iso(moment), "at": moment}
        body = json.dumps({"data": data, "id": ulid, "name": "sleep", "ts": 1, "user": {}})
        statements += [
            ("INSERT INTO events VALUES (?,'sleep',?,1,0)", (ulid, body)),
            ("INSERT INTO runs (id, function, event_id, status, created_at, started_at, quiet, req_version) "
             "VALUES (?,?,?,'Running',1,1,0,2)", (ulid, function, ulid)),
            ("INSERT INTO steps (run_id, id, name, op, status, attempt, parallel, race, created_at, due_at) "
             "VALUES (?,?,'s','Sleep','Open',0,0,0,1,?)", (ulid, step, round(moment * 1000))),
        ]  # fmt: skip
    await store.write(statements)
    await store.close()


async def sleepers(folder: Path) -> dict[str, float]:
    """Ten thousand sleeping runs: what they cost while nothing is due, and how late they wake."""
    functions, path, wake = Functions(), folder / "sleepers.db", time.time() + 8 + IDLE_S
    await fill(path, wake)
    lab = Lab(path, functions.build, clock=SystemClock())  # type: ignore[arg-type]
    lab.app = lab.app._app
    await lab.start()
    await lab.engine.idle()
    if time.time() + IDLE_S > wake:
        raise RuntimeError("this machine is too slow for the sleepers")
    before, began = _cpu_s(), time.perf_counter()
    await asyncio.sleep(IDLE_S)
    idle = (_cpu_s() - before) / (time.perf_counter() - began) * 100
    while len(functions.late) < SLEEPERS:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await lab.engine.stop()
    late = sorted(functions.late)
    return {
        "sleepers": SLEEPERS,
        "sleepers_idle_cpu_percent": round(idle, 2),
        "sleepers_late_p50_ms": round(late[len(late) // 2] * 1000, 1),
        "sleepers_late_p99_ms": round(late[int(len(late) * 0.99)] * 1000, 1),
    }


def _iso(moment: float) -> str:
    return (datetime.fromtimestamp(0).astimezone() + timedelta(seconds=moment)).isoformat()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def quick(folder: Path) -> dict[str, float]:
    """What DBOS is compared with."""
    functions = Functions()
    lab = Lab(folder / "engine.db", functions.build, clock=SystemClock())  # type: ignore[arg-type]
    lab.app = lab.app._app
    await lab.start()
    figures = {
        "step_ms": round(await steps_ms(lab, functions), 3),
        "start_ms": round(await start_ms(lab, functions), 3),
        "burst_steps_per_s": round(await burst(lab)),
    }
    await lab.engine.stop()
    return figures


async def long(folder: Path) -> dict[str, float]:
    """What takes longer: a run of a thousand steps, ten thousand sleepers."""
    functions = Functions()
    lab = Lab(folder / "engine.db", functions.build, clock=SystemClock())  # type: ignore[arg-type]
    timed = Timed(lab.app._app)
    lab.app = timed  # type: ignore[assignment]
    await lab.start()
    figures = await shares(lab, timed) | {"flush_ms": round(flush_ms(folder), 3)}
    await lab.engine.stop()
    return figures | await sleepers(folder)


def main() -> None:
    measure = {"quick": quick, "long": long}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder)))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
