"""One state change: the statements of its transaction, and what may begin once it is on disk."""

from dataclasses import dataclass, field
from typing import Any

from app.engine.model import RUNNING, SCHEDULED, Event, Job, Run, Step
from app.engine.writer import Statement

_STEP_COLUMNS = (
    "run_id, id, name, op, status, position, attempt, target, opts, memo, parallel, race, "
    "created_at, started_at, ended_at, due_at"
)
_INSERT_STEP = f"INSERT OR REPLACE INTO steps ({_STEP_COLUMNS}) VALUES ({', '.join('?' * 16)})"  # noqa: S608
_INSERT_RUN = (
    "INSERT INTO runs (id, function, event_id, status, created_at, started_at, singleton_key, quiet, parent_run, "
    "parent_step, req_version) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
)
_INSERT_JOB = (
    "INSERT INTO jobs (id, run_id, step_id, due_at, attempt, parallel, claimed, interruptions) VALUES (?,?,?,?,?,?,?,0)"
)


@dataclass(slots=True)
class Change:
    """Collects one transaction. Memory is changed at once, in the same order as the disk will be.

    `ready` are calls that may be made after the commit, `emitted` the engine's own events still to be taken in.
    """

    now_ms: int
    statements: list[Statement] = field(default_factory=list)
    ready: list[Job] = field(default_factory=list)
    timed: list[tuple[int, Job | tuple[Run, Step]]] = field(default_factory=list)
    emitted: list[Event] = field(default_factory=list)

    def add(self, sql: str, *values: Any) -> None:
        self.statements.append((sql, values))

    def event(self, event: Event, source: int) -> None:
        self.add(
            "INSERT INTO events (internal_id, name, body, received_at, source) VALUES (?,?,?,?,?)",
            event.internal_id, event.name, event.raw.decode(), event.received_ms, source,
        )  # fmt: skip

    def event_id(self, event: Event) -> None:
        self.add(
            "INSERT OR REPLACE INTO event_ids (name, id, received_at) VALUES (?,?,?)",
            event.name, event.id, event.received_ms,
        )  # fmt: skip

    def run(self, run: Run) -> None:
        parent_run, parent_step = run.parent or (None, None)
        self.add(
            _INSERT_RUN, run.id, run.function, run.event.internal_id, run.status, run.created_ms, run.started_ms,
            run.singleton_key, int(run.quiet), parent_run, parent_step, run.req_version,
        )  # fmt: skip

    def started(self, run: Run) -> None:
        """The first call of a run that was scheduled for later."""
        if run.status == SCHEDULED:
            run.status, run.started_ms = RUNNING, self.now_ms
            self.add("UPDATE runs SET status = ?, started_at = ? WHERE id = ?", RUNNING, self.now_ms, run.id)

    def version(self, run: Run, version: int) -> None:
        if run.req_version != version:
            run.req_version = version
            self.add("UPDATE runs SET req_version = ? WHERE id = ?", version, run.id)

    def run_ended(self, run: Run, status: str, output: str | None) -> None:
        self.add(
            "UPDATE runs SET status = ?, ended_at = ?, output = ?, started_at = coalesce(started_at, ?) WHERE id = ?",
            status, self.now_ms, output, self.now_ms, run.id,
        )  # fmt: skip
        self.add("DELETE FROM jobs WHERE run_id = ?", run.id)

    def steps_cancelled(self, run: Run) -> None:
        self.add(
            "UPDATE steps SET status = 'Cancelled', ended_at = ? WHERE run_id = ? AND status = 'Open'",
            self.now_ms, run.id,
        )  # fmt: skip

    def step_opened(self, run: Run, step: Step) -> None:
        self.add(
            _INSERT_STEP, run.id, step.id, step.name, step.op, "Open", None, 0, step.target, step.opts, None,
            int(step.parallel), int(step.race), step.created_ms, None, None, step.due_ms,
        )  # fmt: skip

    def step_finished(
        self, run: Run, step: Step, status: str, memo: str, position: int, attempt: int, started_ms: int
    ) -> None:
        self.add(
            _INSERT_STEP, run.id, step.id, step.name, step.op, status, position, attempt, step.target, step.opts, memo,
            int(step.parallel), int(step.race), step.created_ms, started_ms, self.now_ms, step.due_ms,
        )  # fmt: skip

    def attempt_failed(self, run: Run, step_id: str, attempt: int, started_ms: int, error: str) -> None:
        self.add(
            "INSERT INTO failures (run_id, step_id, attempt, started_at, ended_at, error) VALUES (?,?,?,?,?,?)",
            run.id, step_id, attempt, started_ms, self.now_ms, error,
        )  # fmt: skip

    def job(self, job: Job) -> None:
        """A new call; one that is due now is claimed in the same transaction."""
        job.claimed = job.due_ms <= self.now_ms
        job.run.jobs[job.id] = job
        self.add(
            _INSERT_JOB, job.id, job.run.id, job.step_id, job.due_ms, job.attempt, int(job.parallel), int(job.claimed)
        )
        if job.claimed:
            self.ready.append(job)
        else:
            self.timed.append((job.due_ms, job))

    def job_claimed(self, job: Job) -> None:
        job.claimed = True
        self.add("UPDATE jobs SET claimed = 1 WHERE id = ?", job.id)
        self.started(job.run)
        self.ready.append(job)

    def job_released(self, job: Job) -> None:
        """The call was not finished, and not by its own fault: it is made again, and counts for nothing."""
        job.claimed = False
        self.add("UPDATE jobs SET claimed = 0 WHERE id = ?", job.id)

    def job_retried(self, job: Job, due_ms: int) -> None:
        job.attempt, job.due_ms, job.claimed = job.attempt + 1, due_ms, due_ms <= self.now_ms
        self.add(
            "UPDATE jobs SET attempt = ?, due_at = ?, claimed = ?, interruptions = 0 WHERE id = ?",
            job.attempt, due_ms, int(job.claimed), job.id,
        )  # fmt: skip
        if job.claimed:
            self.ready.append(job)
        else:
            self.timed.append((due_ms, job))

    def job_done(self, job: Job) -> None:
        job.dropped = True
        job.run.jobs.pop(job.id, None)
        self.add("DELETE FROM jobs WHERE id = ?", job.id)

    def timer(self, run: Run, step: Step) -> None:
        if step.due_ms is not None:
            self.timed.append((step.due_ms, (run, step)))
