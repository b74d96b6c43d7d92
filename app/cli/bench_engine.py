"""The engine's figures, with DBOS on SQLite beside it; needs a source checkout (tests/engine)."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.config import bench_environment
from app.errors import MoabError

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 300.0
ROUNDS = 2
_NO_PEER = "DBOS is not installed, so there is nothing to compare with: install the dev dependency `dbos`."


def bench_engine() -> dict[str, Any]:
    """Medians in ms and steps a second of the engine (`step_ms`, `start_ms`, `burst_steps_per_s`, ten thousand
    `sleepers_*`, its own share `engine_share_ms_*` and the `bare_commit_ms_*` in it) and of DBOS (`dbos_*`), measured
    in turns in processes of their own. Raises MoabError when they cannot be measured.
    """
    if not (ROOT / "tests" / "engine").is_dir():
        raise MoabError("moab bench engine needs a source checkout: its workload is in tests/engine.")
    peer = importlib.util.find_spec("dbos") is not None
    figures: dict[str, Any] = {}
    for _ in range(ROUNDS):
        _keep_best(figures, _measured("tests.engine.benchmark", "quick"))
        if peer:
            _keep_best(figures, _measured("tests.engine.benchmark_dbos"))
    if not peer:
        figures["dbos"] = _NO_PEER
    else:
        figures["step_ratio"] = round(figures["step_ms"] / figures["dbos_step_ms"], 2)
    return figures | _measured("tests.engine.benchmark", "long")


def _keep_best(figures: dict[str, Any], measured: dict[str, Any]) -> None:
    """The better of two figures: both sides are measured in turns, so that a busy moment spoils neither."""
    for name, value in measured.items():
        better = max if name.endswith("_per_s") else min
        figures[name] = better(figures.get(name, value), value)


def _measured(module: str, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603 - our own module
        [sys.executable, "-m", module, *arguments], cwd=ROOT, env=bench_environment(), capture_output=True, text=True,
        timeout=WITHIN_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise MoabError(f"The measurement in {module} failed: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures
