"""The same workload on DBOS with SQLite, printed as JSON; run by `moab bench engine`, and nobody else imports DBOS."""

import asyncio
import json
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path

from dbos import DBOS, DBOSConfig

from tests.engine.benchmark import BURSTS, BYTES, ROUNDS, RUN_STEPS, RUNS, STARTS, STEPS

_times: list[float] = []


@DBOS.step()
async def body() -> str:
    _times.append(time.perf_counter())
    return "x" * BYTES


@DBOS.workflow()
async def steps(count: int) -> None:
    for _ in range(count):
        await body()


async def measure() -> dict[str, float]:
    means, starts, best = [], [], 0.0
    for _ in range(ROUNDS):
        _times.clear()
        await (await DBOS.start_workflow_async(steps, STEPS)).get_result()
        means.append((_times[-1] - _times[0]) / (STEPS - 1) * 1000)
    for _ in range(STARTS // 5):
        _times.clear()
        sent = time.perf_counter()
        await (await DBOS.start_workflow_async(steps, 1)).get_result()
        starts.append((_times[0] - sent) * 1000)
    for _ in range(BURSTS):
        began = time.perf_counter()
        handles = [await DBOS.start_workflow_async(steps, RUN_STEPS) for _ in range(RUNS)]
        await asyncio.gather(*(handle.get_result() for handle in handles))
        best = max(best, RUNS * RUN_STEPS / (time.perf_counter() - began))
    return {
        "dbos_step_ms": round(statistics.median(means[1:]), 3),
        "dbos_start_ms": round(statistics.median(starts), 3),
        "dbos_burst_steps_per_s": round(best),
    }


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": f"sqlite:///{Path(folder) / 'dbos.sqlite'}",
            "run_admin_server": False,
        }
        DBOS(config=config)
        DBOS.launch()
        figures = asyncio.run(measure())
        DBOS.destroy()
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
