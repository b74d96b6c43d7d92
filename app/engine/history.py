"""Runs and their steps as people see them: for `moab runs`, the dashboard and the REST API."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.engine.clock import from_ms
from app.engine.errors import BadRequest, UnknownEvent, UnknownRun
from app.engine.functions import Function
from app.engine.gateway import INFERENCE, without_secrets
from app.engine.model import STATUSES
from app.engine.store import Store

_RUN_COLUMNS = (
    "runs.id, function, event_id, events.name AS event_name, status, created_at, started_at, ended_at, output, "
    "parent_run, parent_step, replay_of, reason"
)
_MAX_ROWS = 1_000
_OF_EVENT = "(event_id = ? OR runs.id IN (SELECT run_id FROM run_events WHERE run_events.event_id = ?))"
_SOURCES = ("sent", "repeated", "engine")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `status` is Scheduled, Running, Completed, Failed or Cancelled; times are aware, in UTC.

    `replay_of` is the run that it repeats; `reason` why it was cancelled, if that was not asked for by name.
    """

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
    replay_of: str | None = None
    reason: str | None = None

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


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as functions see it. `id` is what its sender got back; `event_id` the sender's own or the same.

    `source` is `sent`, `repeated` (with a known id: it starts nothing) or `engine` (its own events).
    """

    id: str
    event_id: str
    name: str
    data: dict[str, Any]
    ts: int
    received_at: datetime
    source: str


@dataclass(frozen=True, slots=True)
class EventTrace:
    """An event and the runs that it started, alone or with others of a batch."""

    event: EventRow
    runs: tuple[RunRow, ...] = ()


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One function. `id` is its full id, `config` what its app registered."""

    id: str
    name: str
    app: str
    triggers: tuple[dict[str, Any], ...]
    config: dict[str, Any]
    paused: bool


def function_row(function: Function, paused: bool) -> FunctionRow:
    """A registered function as people see it."""
    raw = dict(function.raw)
    return FunctionRow(function.slug, function.name, function.app, tuple(raw["triggers"]), raw, paused)


async def runs(
    store: Store, *, limit: int = 50, status: str | None = None, function: str | None = None,
    event_id: str | None = None, before: str | None = None, since_ms: int | None = None, until_ms: int | None = None,
    text: str | None = None, without: Sequence[str] = (),
) -> list[RunRow]:  # fmt: skip
    """The newest runs first. `event_id` is an event's internal id; `before` a run id to page from; `since_ms` and
    `until_ms` bound their creation; `text` is looked for in their events, letter case aside. Runs that
    went well are left out where an event named in `without` started them. Raises BadRequest for a status that does not
    exist."""
    if status is not None and status not in STATUSES:
        raise BadRequest(f"There is no status '{status}': accepted are {', '.join(STATUSES)}.")
    conditions, values = ["1"], list[object]()
    for condition, value in (
        ("status = ?", status), ("function = ?", function), ("runs.id < ?", before), ("created_at >= ?", since_ms),
        ("created_at < ?", until_ms), ("events.body LIKE ? ESCAPE '\\'", text and _like(text)),
    ):  # fmt: skip
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if event_id is not None:
        conditions.append(_OF_EVENT)
        values += [event_id, event_id]
    if without:
        conditions.append(f"NOT (status = 'Completed' AND events.name IN ({', '.join('?' * len(without))}))")
        values += without
    rows = await store.rows(
        f"SELECT {_RUN_COLUMNS} FROM runs JOIN events ON internal_id = event_id "  # noqa: S608
        f"WHERE {' AND '.join(conditions)} ORDER BY runs.id DESC LIMIT ?",
        *values, min(max(limit, 1), _MAX_ROWS),
    )  # fmt: skip
    return [_run(row) for row in rows]


async def events(
    store: Store, *, limit: int = 50, name: str | None = None, before: str | None = None
) -> list[EventRow]:
    """The newest events first, with the engine's own; `before` is an id to page from."""
    rows = await store.rows(
        "SELECT * FROM events WHERE (? IS NULL OR name = ?) AND (? IS NULL OR internal_id < ?) "
        "ORDER BY internal_id DESC LIMIT ?",
        name, name, before, before, min(max(limit, 1), _MAX_ROWS),
    )  # fmt: skip
    return [_event(row) for row in rows]


async def event(store: Store, event_id: str) -> EventTrace:
    """One event and the runs that it started, oldest first; raises UnknownEvent."""
    rows = await store.rows("SELECT * FROM events WHERE internal_id = ?", event_id)
    if not rows:
        raise UnknownEvent(f"There is no event {event_id}.")
    started = await runs(store, event_id=event_id, limit=_MAX_ROWS)
    return EventTrace(_event(rows[0]), tuple(reversed(started)))


async def run_ids(store: Store, beginning: str, limit: int) -> list[str]:
    """Ids of runs that begin so, oldest first."""
    end = beginning + "~"  # behind every letter of an id
    rows = await store.rows("SELECT id FROM runs WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", beginning, end, limit)
    return [row["id"] for row in rows]


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
        row["parent_step"], row["replay_of"], row["reason"],
    )  # fmt: skip


def _event(row: sqlite3.Row) -> EventRow:
    body = json.loads(row["body"])
    return EventRow(
        row["internal_id"], body["id"], body["name"], body["data"], body["ts"], from_ms(row["received_at"]),
        _SOURCES[row["source"]],
    )  # fmt: skip


def _like(text: str) -> str:
    """A pattern that finds a text anywhere in ASCII JSON."""
    escaped = json.dumps(text)[1:-1]
    for letter in ("\\", "%", "_"):
        escaped = escaped.replace(letter, f"\\{letter}")
    return f"%{escaped}%"


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
        input=_json(without_secrets(row["opts"]) if row["op"] == INFERENCE else row["opts"]),
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
