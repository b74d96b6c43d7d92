"""The file does not grow without bound, and looking at many runs is quick."""

import time
from pathlib import Path

from app.engine.ids import encode_ulid
from app.engine.writer import Statement
from tests.engine.lab import Lab, running
from tests.engine.sample_functions import build

_RUNS = 20_000
#: What a pruned file may have left, beside the write-ahead log, which is cut to nothing.
_PRUNED_BYTES = 500_000
_LISTED_S = 0.2


async def fill(lab: Lab, ended_ms: int) -> None:
    """Runs as they are after some weeks: two steps of a kilobyte each, with an event."""
    memo, body = '{"data":"%s"}' % ("x" * 1_000), '{"data":{"sessionKey":"s"},"id":"e","name":"n","ts":1,"user":{}}'
    statements: list[Statement] = []
    for number in range(_RUNS):
        ulid = encode_ulid(((ended_ms - 1_000) << 80) + number)
        statements.append(("INSERT INTO events VALUES (?,?,?,?,0)", (ulid, "n", body, ended_ms)))
        statements.append(
            (
                "INSERT INTO runs (id, function, event_id, status, created_at, started_at, ended_at, output, quiet, "
                "req_version) VALUES (?,'rec-no-steps',?,'Completed',?,?,?,'1',0,2)",
                (ulid, ulid, ended_ms - 1_000, ended_ms - 900, ended_ms),
            )
        )
        for position in (1, 2):
            statements.append(
                (
                    "INSERT INTO steps (run_id, id, name, op, status, position, attempt, memo, parallel, race, "
                    "created_at) VALUES (?,?,'s','StepRun','Completed',?,0,?,0,0,?)",
                    (ulid, f"s{position}", position, memo, ended_ms),
                )
            )
    await lab.engine.store.write(statements)


async def test_twenty_thousand_runs(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, build, retention_days=14) as lab:
        await fill(lab, lab.engine.now_ms() - 15 * 86_400_000)
        kept = await lab.send("rec/two-steps")

        asked = time.perf_counter()
        newest = await lab.engine.runs(limit=50)
        filtered = await lab.engine.runs(limit=50, status="Failed", function="rec-no-steps", text="nothing")
        took = time.perf_counter() - asked
        assert (len(newest), filtered) == (50, [])
        assert took < 2 * _LISTED_S, "each in under 200 ms, also the one that looks at every run"
        assert path.stat().st_size > 40_000_000 or path.with_name("engine.db-wal").stat().st_size > 40_000_000

        assert await lab.engine.prune() == 2 * _RUNS, "the runs and their events"

        assert path.stat().st_size < _PRUNED_BYTES
        assert path.with_name("engine.db-wal").stat().st_size == 0
        assert (await lab.run_of(kept)).run.status == "Completed"
        await lab.send("rec/two-steps")
