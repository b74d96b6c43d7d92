"""Reading an engine's file at its start: apps, open runs, calls to make, starts that wait."""

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.engine.errors import EngineError
from app.engine.expressions import Expression
from app.engine.functions import Function, parse_function
from app.engine.live import DEDUPE_MS, Live, Wait
from app.engine.model import Event, Held, Job, Memos, Run, Step
from app.engine.registry import App
from app.engine.retry import interrupted_attempt
from app.engine.writer import Statement

log = logging.getLogger("moab.engine")


@dataclass(slots=True)
class Stored:
    """What an earlier process left."""

    apps: list[App] = field(default_factory=list)
    functions: list[tuple[Function, bool]] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)
    live: Live = field(default_factory=Live)
    jobs: list[Job] = field(default_factory=list)
    interrupted: list[Job] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    cron_instants: dict[tuple[str, str], int] = field(default_factory=dict)
    greatest_id: str = ""


_ORPHANS = "DELETE FROM jobs WHERE run_id NOT IN (SELECT id FROM runs WHERE ended_at IS NULL)"


def interruptions(jobs: Sequence[Job]) -> list[Statement]:
    """What a start writes: that these calls were cut off by the end of the process."""
    counted: list[Statement] = [
        (
            "UPDATE jobs SET claimed = 0, interruptions = interruptions + 1, attempt = ? WHERE id = ?",
            (job.attempt, job.id),
        )
        for job in jobs
    ]
    return [(_ORPHANS, ()), *counted]


def load_memos(connection: sqlite3.Connection, run_id: str) -> Memos:
    """The finished steps of a run in order of completion."""
    memos = Memos()
    rows = connection.execute(
        "SELECT id, memo FROM steps WHERE run_id = ? AND position IS NOT NULL ORDER BY position", (run_id,)
    )
    for step_id, memo in rows:
        memos.add(step_id, memo.encode())
    return memos


def load(connection: sqlite3.Connection, now_ms: int) -> Stored:
    """Everything that is open in the file."""
    stored = Stored()
    for name, url, sdk, checksum in connection.execute("SELECT name, url, sdk, checksum FROM apps"):
        stored.apps.append(App(name, url, sdk, checksum, None))
    functions = connection.execute("SELECT slug, app, config, archived, paused FROM functions")
    for slug, app, config, archived, paused in functions:
        if paused:
            stored.paused.append(slug)
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
    _load_held(connection, stored)
    for policy, function, key, tat_us in connection.execute("SELECT policy, function, key, tat FROM rates"):
        stored.live.rates[policy, function, key] = tat_us
    for seed, ids, received in connection.execute("SELECT seed, ids, received_at FROM sends ORDER BY received_at"):
        stored.live.remember_send(seed, received, json.loads(ids))
    recent = connection.execute(
        "SELECT name, id, received_at FROM event_ids WHERE received_at > ?", (now_ms - DEDUPE_MS,)
    )
    for name, event_id, received in recent:
        stored.live.remember_event_id(name, event_id, received)
    return stored


def _load_runs(connection: sqlite3.Connection, live: Live) -> None:
    rows = connection.execute(
        "SELECT runs.id, function, status, created_at, started_at, singleton_key, quiet, parent_run, parent_step, "
        "req_version, internal_id, body, received_at, priority, replay_of, "
        "(SELECT count(*) FROM steps WHERE run_id = runs.id AND position IS NOT NULL) "
        "FROM runs JOIN events ON internal_id = event_id WHERE ended_at IS NULL ORDER BY runs.id"
    )
    for row in rows:
        event = Event.stored(row[10], row[11], row[12])
        live.add(
            Run(
                id=row[0], function=row[1], event=event, created_ms=row[3], status=row[2], quiet=bool(row[6]),
                parent=(row[7], row[8]) if row[7] else None, singleton_key=row[5], req_version=row[9],
                started_ms=row[4], priority=row[13], replay_of=row[14], finished_steps=row[15],
            )
        )  # fmt: skip
    batches = connection.execute(
        "SELECT run_id, internal_id, body, received_at FROM run_events JOIN events ON internal_id = event_id "
        "WHERE run_id IN (SELECT id FROM runs WHERE ended_at IS NULL) ORDER BY run_id, position"
    )
    for run_id, internal_id, body, received in batches:
        live.runs[run_id].batch += (Event.stored(internal_id, body, received),)
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
        "SELECT id, run_id, step_id, due_at, attempt, parallel, claimed, interruptions FROM jobs "
        "WHERE run_id IN (SELECT id FROM runs WHERE ended_at IS NULL) ORDER BY id"
    )
    for job_id, run_id, step_id, due_ms, attempt, parallel, claimed, interruptions in rows:
        job = Job(job_id, live.runs[run_id], step_id, due_ms, attempt, bool(parallel), bool(claimed))
        job.run.jobs[job_id] = job
        live.next_job = max(live.next_job, job_id + 1)
        if claimed:
            job.attempt, job.claimed = interrupted_attempt(attempt, interruptions + 1), False
            stored.interrupted.append(job)
        stored.jobs.append(job)


def _load_held(connection: sqlite3.Connection, stored: Stored) -> None:
    by_id: dict[int, Held] = {}
    rows = connection.execute(
        "SELECT start_id, why, function, key, due_at, latest_at, parent_run, parent_step, internal_id, body, "
        "received_at FROM held JOIN events ON internal_id = event_id ORDER BY start_id, event_id"
    )
    for start_id, why, function, key, due_ms, latest_ms, parent_run, parent_step, *event in rows:
        if start_id not in by_id:
            parent = (parent_run, parent_step) if parent_run else None
            by_id[start_id] = Held(start_id, why, function, key, [], due_ms, latest_ms, parent)
        by_id[start_id].events.append(Event.stored(*event))
        stored.live.next_held = max(stored.live.next_held, start_id + 1)
    stored.held = list(by_id.values())
