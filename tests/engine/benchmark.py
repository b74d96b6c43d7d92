"""What the engine costs, measured on a real file and printed as JSON; run by `moab bench engine`.

A step's time is from the first line of one step's body to the first line of the next. The engine's share is the
time from the end of one call of the SDK to the moment at which the next has its request, without what the SDK itself
does before it asks for that. In it once is the way to the writer's thread, the disk's flush and the way back, which are
told beside it as a commit of nothing (`bare_commit_ms`): they take the longer, the longer the thread and the disk were
idle, and so does a step's share.
"""

import asyncio
import hashlib
import json
import os
import queue
import resource
import statistics
import sys
import tempfile
import threading
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
FLUSHES, FLUSH_BYTES = 50, 24_000
SLEEPERS, IDLE_S, SPREAD_S = 10_000, 3.0, 40.0
_AT, _AROUND = (1, 100, 1_000), 20


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
    """An ASGI wrapper that notes of each call when the SDK begins, asks for its request, has it, and ends."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.calls: list[tuple[float, float, float, float]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began, moments = time.perf_counter(), []

        async def noted() -> Any:
            moments.append(time.perf_counter())
            message = await receive()
            moments.append(time.perf_counter())
            return message

        await self._app(scope, noted, send)
        self.calls.append((began, *moments[:2], time.perf_counter()))

    def gaps_ms(self) -> list[float]:
        """The engine's share of each step: from one call's end until the next has its request, without the SDK's way
        to asking for it."""
        return [
            (has_it - ended - (asked - began)) * 1000
            for (_, _, _, ended), (began, asked, has_it, _) in zip(self.calls, self.calls[1:], strict=False)
        ]


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


async def shares(folder: Path, lab: Lab, timed: Timed) -> dict[str, float]:
    """The engine's share at the first, the hundredth and the thousandth step of one run, and that of a bare commit
    after a pause as long as the SDK's call there: medians around them.
    """
    for steps in (STEPS, LONG):  # the first run warms up, as with the other figures
        timed.calls.clear()
        await lab.engine.send([{"name": "steps", "data": {"steps": steps}}])
        await lab.engine.idle()
    gaps = timed.gaps_ms()
    calls = [ended - has_it for _, _, has_it, ended in timed.calls]
    figures = {}
    for at in _AT:
        around = slice(max(0, at - _AROUND), at + _AROUND)
        figures[f"engine_share_ms_{at}"] = round(statistics.median(gaps[around]), 3)
        figures[f"bare_commit_ms_{at}"] = round(await bare_commit_ms(folder, statistics.median(calls[around])), 3)
    return figures


async def bare_commit_ms(folder: Path, pause_s: float) -> float:
    """The median time that a commit takes with nothing to do: a thread takes it from a queue, this disk takes in what
    a step writes, in a file that gets no longer, and the loop is told. Before each the loop works for `pause_s`.
    """
    taken, page, loop = [], b"x" * FLUSH_BYTES, asyncio.get_running_loop()
    asked: queue.SimpleQueue[tuple[int, asyncio.Future[None]] | None] = queue.SimpleQueue()
    with (folder / "flush").open("wb", buffering=0) as file:
        file.write(bytes(FLUSH_BYTES * FLUSHES))
        os.fsync(file.fileno())

        def write() -> None:
            while (item := asked.get()) is not None:
                os.pwrite(file.fileno(), page, item[0] * FLUSH_BYTES)
                os.fdatasync(file.fileno())
                loop.call_soon_threadsafe(item[1].set_result, None)

        thread = threading.Thread(target=write)
        thread.start()
        for number in range(FLUSHES):
            works_until = time.perf_counter() + pause_s
            while (began := time.perf_counter()) < works_until:
                pass
            done: asyncio.Future[None] = loop.create_future()
            asked.put((number, done))
            await done
            taken.append((time.perf_counter() - began) * 1000)
        asked.put(None)
        thread.join()
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
    figures = await shares(folder, lab, timed)
    await lab.engine.stop()
    return figures | await sleepers(folder)


def main() -> None:
    measure = {"quick": quick, "long": long}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder)))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
