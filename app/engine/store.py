"""What is read from the engine's file: open runs at start, memos, and the questions of people and the API."""

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.engine.errors import EngineError
from app.engine.expressions import Expression
from app.engine.functions import Function, parse_function
from app.engine.ids import encode_ulid
from app.engine.live import DEDUPE_MS, Live, Wait
from app.engine.model import Event, Job, Memos, Run, Step
from app.engine.registry import App
from app.engine.retry import interrupted_attempt
from app.engine.writer import Statement, Writer

log = logging.getLogger("moab.engine")
_PRUNE_BATCH = 200
_DELETE_RUN = (
    "DELETE FROM steps WHERE run_id = ?",
    "DELETE FROM failures WHERE run_id = ?",
    "DELETE FROM runs WHERE id = ?",
)


@dataclass(slots=True)
class Stored:
    """What an earlier process left."""

    apps: list[App] = field(default_factory=list)
    functions: list[tuple[Function, bool]] = field(default_factory=list)
    live: Live = field(default_factory=Live)
    jobs: list[Job] = field(default_factory=list)
    interrupted: list[Job] = field(default_factory=list)
    cron_instants: dict[tuple[str, str], int] = field(default_factory=dict)
    greatest_id: str = ""


class Store:
    """The door to the file. Writing is one call: a list of statements that commit together."""

    def __init__(self, path: Path) -> None:
        self._writer = Writer(path, Path(__file__).with_name("schema.sql").read_text())

    async def open(self, now_ms: int) -> Stored:
        """Open the file and read what is open in it; counts the interruption of every call that was in flight."""
        await self._writer.open()
        stored: Stored = await self._writer.read(lambda connection: _load(connection, now_ms))
        await self._writer.write(_interruptions(stored.interrupted))
        return stored

    async def close(self) -> None:
        await self._writer.close()

    async def write(self, statements: Sequence[Statement]) -> None:
        """One transaction; returns when it is on disk. Raises StoreFailed."""
        await self._writer.write(statements)

    async def memos(self, run_id: str) -> Memos:
        """The finished steps of a run in order of completion."""
        found: Memos = await self._writer.read(lambda connection: _memos(connection, run_id))
        return found

    async def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """Answer a question."""

        def ask(connection: sqlite3.Connection) -> list[sqlite3.Row]:
            cursor = connection.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(sql, values).fetchall()

        found: list[sqlite3.Row] = await self._writer.read(ask)
        return found

    async def prune(self, now_ms: int, before_ms: int) -> int:
        """Delete a small batch of runs that ended before a moment, and of events that no run needs any more.

        Returns how many runs and events were deleted; 0 when none is left.
        """
        runs = await self.rows(
            "SELECT id FROM runs WHERE ended_at < ? ORDER BY ended_at LIMIT ?", before_ms, _PRUNE_BATCH
        )
        events = await self.rows(
            "SELECT internal_id AS id FROM events WHERE internal_id < ? AND NOT EXISTS "
            "(SELECT 1 FROM runs WHERE runs.event_id = events.internal_id) LIMIT ?",
            encode_ulid(before_ms << 80), _PRUNE_BATCH,
        )  # fmt: skip
        statements: list[Statement] = [("DELETE FROM events WHERE internal_id = ?", (row["id"],)) for row in events]
        for row in runs:
            statements += [(sql, (row["id"],)) for sql in _DELETE_RUN]
        statements.append(("DELETE FROM event_ids WHERE received_at < ?", (now_ms - DEDUPE_MS,)))
        await self.write(statements)
        await self.rows("PRAGMA incremental_vacuum(200)")
        return len(runs) + len(events)


def _interruptions(jobs: Sequence[Job]) -> list[Statement]:
    return [
        (
            "UPDATE jobs SET claimed = 0, interruptions = interruptions + 1, attempt = ? WHERE id = ?",
            (job.attempt, job.id),
        )
        for job in jobs
    ]


def _memos(connection: sqlite3.Connection, run_id: str) -> Memos:
    memos = Memos()
    rows = connection.execute(
        "SELECT id, memo FROM steps WHERE run_id = ? AND position IS NOT NULL ORDER BY position", (run_id,)
    )
    for step_id, memo in rows:
        memos.add(step_id, memo.encode())
    return memos


def _load(connection: sqlite3.Connection, now_ms: int) -> Stored:
    stored = Stored()
    for name, url, sdk, checksum in connection.execute("SELECT name, url, sdk, checksum FROM apps"):
        stored.apps.append(App(name, url, sdk, checksum, None))
    for slug, app, config, archived in connection.execute("SELECT slug, app, config, archived FROM functions"):
        try:
            stored.functions.append((parse_function(app, json.loads(config)), bool(archived)))
        except EngineError as error:
            log.error("The stored function %s cannot be read (%s); it waits for its app to register.", slug, error)
    for function, expression, instant in connection.execute("SELECT * FROM crons"):
        stored.cron_instants[function, expression] = instant
    greatest = connection.execute(
        "SELECT max(id) FROM (SELECT max(id) AS id FROM runs UNION ALL SELECT max(internal_id) FROM events)"
    )
    stored.greatest_id = greatest.fetchone()[0] or ""
    _load_runs(connection, stored.live)
    _load_jobs(connection, stored)
    recent = connection.execute(
        "SELECT name, id, received_at FROM event_ids WHERE received_at > ?", (now_ms - DEDUPE_MS,)
    )
    for name, event_id, received in recent:
        stored.live.remember_event_id(name, event_id, received)
    return stored


def _load_runs(connection: sqlite3.Connection, live: Live) -> None:
    rows = connection.execute(
        "SELECT runs.id, function, status, created_at, started_at, singleton_key, quiet, parent_run, parent_step, "
        "req_version, internal_id, body, received_at, "
        "(SELECT count(*) FROM steps WHERE run_id = runs.id AND position IS NOT NULL) "
        "FROM runs JOIN events ON internal_id = event_id WHERE ended_at IS NULL ORDER BY runs.id"
    )
    for row in rows:
        event = Event(row[10], json.loads(row[11]), row[12])
        live.add(
            Run(
                id=row[0], function=row[1], event=event, created_ms=row[3], status=row[2], quiet=bool(row[6]),
                parent=(row[7], row[8]) if row[7] else None, singleton_key=row[5], req_version=row[9],
                started_ms=row[4], finished_steps=row[13],
            )
        )  # fmt: skip
    steps = connection.execute(
        "SELECT run_id, id, name, op, parallel, race, created_at, target, opts, due_at FROM steps "
        "WHERE status = 'Open' AND run_id IN (SELECT id FROM runs WHERE ended_at IS NULL)"
    )
    for row in steps:
        run = live.runs[row[0]]
        step = Step(row[1], row[2], row[3], bool(row[4]), bool(row[5]), row[6], row[7], row[8], row[9])
        run.open[step.id] = step
        if step.op == "WaitForEvent":
            source = json.loads(step.opts or "{}").get("if")
            live.wait(Wait(run, step, Expression.compile(source) if source else None))


def _load_jobs(connection: sqlite3.Connection, stored: Stored) -> None:
    live = stored.live
    rows = connection.execute(
        "SELECT id, run_id, step_id, due_at, attempt, parallel, claimed, interruptions FROM jobs ORDER BY id"
    )
    for job_id, run_id, step_id, due_ms, attempt, parallel, claimed, interruptions in rows:
        job = Job(job_id, live.runs[run_id], step_id, due_ms, attempt, bool(parallel), bool(claimed))
        job.run.jobs[job_id] = job
        live.next_job = max(live.next_job, job_id + 1)
        if claimed:
            job.attempt, job.claimed = interrupted_attempt(attempt, interruptions + 1), False
            stored.interrupted.append(job)
        stored.jobs.append(job)
