"""SIGKILL over and over on one file: every accepted event has its run, every run its right result.

`KILLS=200` sets how often (default 12), `KILL_SEED` where.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.engine.killing import STEPS

_ROOT = Path(__file__).parents[2]
_KILLS = int(os.environ.get("KILLS", "12"))
_SEED = os.environ.get("KILL_SEED", "7")
_MINUTE_MS = 60_000


@dataclass
class Left:
    """What is left after the last life: the rows of the file, and the notes of all lives."""

    runs: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    steps: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    jobs: int = 0
    events: dict[str, int] = field(default_factory=dict)
    accepted: list[Any] = field(default_factory=list)
    effects: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    lives: list[Any] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("kills")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.killing", str(folder), str(_KILLS), _SEED],
        cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=120 + 3 * _KILLS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = Left(ends=done.stdout.split(), lives=_lines(folder / "lives"), accepted=_lines(folder / "accepted"))
    for run, step, token in _lines(folder / "effects"):
        found.effects[run, step].append(token)
    connection = sqlite3.connect(folder / "engine.db")
    connection.row_factory = sqlite3.Row
    for run in connection.execute("SELECT * FROM runs ORDER BY id"):
        found.runs[run["function"]].append(run)
    for step in connection.execute("SELECT * FROM steps ORDER BY run_id, position"):
        found.steps[step["run_id"]].append(step)
    found.jobs = connection.execute("SELECT count(*) FROM jobs JOIN runs ON runs.id = run_id "
                                    "WHERE ended_at IS NOT NULL").fetchone()[0]  # fmt: skip
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    return found


def test_the_engine_was_killed(left: Left) -> None:
    assert left.ends[-1] == "0", "the last life came to its end"
    killed = [end for end in left.ends[:-1] if end in ("9", "14")]
    assert len(killed) == _KILLS, f"{left.ends}"


def test_every_accepted_event_has_its_run(left: Left) -> None:
    by_event = defaultdict(list)
    for runs in left.runs.values():
        for run in runs:
            by_event[run["event_id"]].append(run["function"])
    assert len(left.accepted) > _KILLS / 4, "there was work"
    for name, event_id, data in left.accepted:
        assert by_event[event_id] == [f"rec-{name}"], f"event {data}"


def test_every_run_has_its_right_result(left: Left) -> None:
    for run in left.runs["rec-work"]:
        assert run["status"] == "Completed", run["output"]
        output = json.loads(run["output"])
        assert output["answer"] == output["n"], "the wait got its own event"
        memos = {step["name"]: json.loads(step["memo"]) for step in left.steps[run["id"]]}
        for name in ("first", "flaky", "call", "ask", "last"):
            assert output[name] == memos[name]["data"], "a run's result is made of its memos"


def test_no_memo_is_lost_or_doubled(left: Left) -> None:
    for run in left.runs["rec-work"]:
        steps = left.steps[run["id"]]
        assert sorted(step["name"] for step in steps) == sorted(STEPS)
        assert [step["position"] for step in steps] == list(range(1, len(STEPS) + 1))
        for step in steps:
            tokens = left.effects.get((run["id"], step["name"]))
            if tokens is not None:
                assert json.loads(step["memo"])["data"] == tokens[-1], "no step ran again after it was memoized"
    children = {run["parent_run"] for run in left.runs["rec-child"]}
    assert len(children) == len(left.runs["rec-child"]) == len(left.runs["rec-work"]), "invoked once each"
    assert left.jobs == 0


def test_singletons_end_with_the_latest(left: Left) -> None:
    latest: dict[int, tuple[int, str]] = {}
    accepted = {event_id: data for name, event_id, data in left.accepted if name == "single"}
    for run in left.runs["rec-single"]:
        assert run["status"] in ("Completed", "Cancelled"), run["output"]
        if run["event_id"] in accepted:
            data = accepted[run["event_id"]]
            latest[data["key"]] = (data["n"], run["status"])
    active = [run["singleton_key"] for run in left.runs["rec-single"] if run["status"] == "Completed"]
    assert len(active) <= len(left.runs["rec-single"])
    last_runs = {run["singleton_key"]: run["status"] for run in left.runs["rec-single"]}
    assert set(last_runs.values()) <= {"Completed"}, "the last run of a key is cancelled by nobody"


def test_no_timer_is_skipped_and_none_fires_twice(left: Left) -> None:
    for steps in left.steps.values():
        for step in steps:
            if step["op"] == "Sleep":
                assert step["status"] in ("Completed", "Cancelled")
                assert step["status"] == "Cancelled" or step["ended_at"] >= step["due_at"]
    instants = [json.loads(run["output"]) for run in left.runs["rec-tick"] if run["status"] == "Completed"]
    assert len(instants) == len(set(instants)), "each instant once"
    fired = {_ms(instant) for instant in instants}
    for instant in range(min(fired, default=0), max(fired, default=0), _MINUTE_MS):
        assert instant in fired or _followed_while_down(left, instant), "only the latest of several missed ones runs"


def _ms(instant: str) -> int:
    from datetime import datetime

    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def _followed_while_down(left: Left, instant: int) -> bool:
    """Whether the engine was down at an instant and at the next one as well."""
    down_at = 0
    for what, moment in left.lives:
        if what == "down":
            down_at = down_at or moment
        else:
            if down_at <= instant and instant + _MINUTE_MS <= moment:
                return True
            down_at = 0
    return False
