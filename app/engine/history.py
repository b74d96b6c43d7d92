"""Runs and their steps as people see them: for `moab runs`, the dashboard and the REST API."""

import json
import sqlite3
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.engine.clock import from_ms
from app.engine.errors import UnknownRun
from app.engine.store import Store

_RUN_COLUMNS = (
    "runs.id, function, event_id, events.name AS event_name, status, created_at, started_at, ended_at, output, "
    "parent_run, parent_step"
)
_MAX_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `status` is Scheduled, Running, Completed, Failed or Cancelled; times are aware, in UTC."""

    id: str
    function: str
    event_id: str
    event_name: str
    status: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    output: Any
    parent_run: str | None
    parent_step: str | None

    @property
    def ended(self) -> bool:
        return self.ended_at is not None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt that failed; `error` is the error as the app answered it."""

    attempt: int
    started_at: datetime
    ended_at: datetime
    error: Any


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step. `status` is Open, Completed, Failed or Cancelled; `input` are the operation's options.

    `output` is the value, `error` the error of a failed step. `due_at` is a wake-up or time-out.
    """

    id: str
    name: str
    op: str
    status: str
    attempt: int
    target: str | None
    input: Any
    output: Any
    error: Any
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    due_at: datetime | None
    failures: tuple[AttemptRow, ...] = ()


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A run, its event, its steps in order, and the failed attempts that belong to no step."""

    run: RunRow
    event: dict[str, Any]
    steps: tuple[StepRow, ...] = ()
    failures: tuple[AttemptRow, ...] = field(default=())


async def runs(
    store: Store, *, limit: int = 50, status: str | None = None, function: str | None = None,
    event_id: str | None = None, before: str | None = None,
) -> list[RunRow]:  # fmt: skip
    """The newest runs first. `event_id` is an event's internal id; `before` a run id to page from."""
    conditions, values = ["1"], list[object]()
    for column, value in (("status", status), ("function", function), ("event_id", event_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    if before is not None:
        conditions.append("runs.id < ?")
        values.append(before)
    rows = await store.rows(
        f"SELECT {_RUN_COLUMNS} FROM runs JOIN events ON internal_id = event_id "  # noqa: S608
        f"WHERE {' AND '.join(conditions)} ORDER BY runs.id DESC LIMIT ?",
        *values, min(max(limit, 1), _MAX_ROWS),
    )  # fmt: skip
    return [_run(row) for row in rows]


async def run(store: Store, run_id: str) -> RunTrace:
    """Everything about one run; raises UnknownRun."""
    rows = await store.rows(
        f"SELECT {_RUN_COLUMNS}, events.body FROM runs JOIN events ON internal_id = event_id "  # noqa: S608
        "WHERE runs.id = ?",
        run_id,
    )
    if not rows:
        raise UnknownRun(f"There is no run {run_id}.")
    failures = await store.rows("SELECT * FROM failures WHERE run_id = ? ORDER BY started_at, attempt", run_id)
    steps = await store.rows(
        "SELECT * FROM steps WHERE run_id = ? ORDER BY position IS NULL, position, created_at, id", run_id
    )
    by_step: dict[str, list[AttemptRow]] = {}
    for row in failures:
        by_step.setdefault(row["step_id"], []).append(
            AttemptRow(row["attempt"], from_ms(row["started_at"]), from_ms(row["ended_at"]), _json(row["error"]))
        )
    step_rows = tuple(_step(row, tuple(by_step.pop(row["id"], ()))) for row in steps)
    rest = tuple(attempt for attempts in by_step.values() for attempt in attempts)
    return RunTrace(_run(rows[0]), json.loads(rows[0]["body"]), step_rows, rest)


def _run(row: sqlite3.Row) -> RunRow:
    return RunRow(
        row["id"], row["function"], row["event_id"], row["event_name"], row["status"], from_ms(row["created_at"]),
        _moment(row["started_at"]), _moment(row["ended_at"]), _json(row["output"]), row["parent_run"],
        row["parent_step"],
    )  # fmt: skip


def _step(row: sqlite3.Row, failures: tuple[AttemptRow, ...]) -> StepRow:
    memo = _json(row["memo"])
    wrapped = isinstance(memo, dict) and row["op"] != "WaitForEvent"
    return StepRow(
        id=row["id"],
        name=row["name"],
        op=row["op"],
        status=row["status"],
        attempt=row["attempt"],
        target=row["target"],
        input=_json(row["opts"]),
        output=memo.get("data") if wrapped else memo,
        error=memo.get("error") if wrapped else None,
        created_at=from_ms(row["created_at"]),
        started_at=_moment(row["started_at"]),
        ended_at=_moment(row["ended_at"]),
        due_at=_moment(row["due_at"]),
        failures=failures,
    )


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else from_ms(ms)


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)
