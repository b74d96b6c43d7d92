"""One state change: the statements of its transaction, and what may begin once it is on disk."""

from dataclasses import dataclass, field
from typing import Any

from app.engine.model import RUNNING, SCHEDULED, Event, Held, Job, Moment, Run, Step
from app.engine.writer import Statement

_STEP_COLUMNS = (
    "run_id, id, name, op, status, position, attempt, target, opts, memo, parallel, race, "
    "created_at, started_at, ended_at, due_at"
)
_INSERT_STEP = f"INSERT OR REPLACE INTO steps ({_STEP_COLUMNS}) VALUES ({', '.join('?' * 16)})"  # noqa: S608
_INSERT_RUN = (
    "INSERT INTO runs (id, function, event_id, status, created_at, started_at, singleton_key, quiet, parent_run, "
    "parent_step, req_version, priority, replay_of) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
)
_INSERT_HELD = (
    "INSERT INTO held (start_id, event_id, why, function, key, due_at, latest_at, parent_run, parent_step) "
    "VALUES (?,?,?,?,?,?,?,?,?)"
)
_INSERT_JOB = (
    "INSERT INTO jobs (id, run_id, step_id, due_at, attempt, parallel, claimed, interruptions) VALUES (?,?,?,?,?,?,?,0)"
)


@dataclass(slots=True)
class Change:
    """Collects one transaction. Memory is changed at once, in the same order as the disk will be.

    `ready` are calls that may be made after the commit, `timed` is what has its moment later, `emitted` are the
    engine's own events still to be taken in, `touched` the runs that watchers hear of.
    """

    now_ms: int
    statements: list[Statement] = field(default_factory=list)
    ready: list[Job] = field(default_factory=list)
    timed: list[tuple[int, Job | Moment | tuple[Run, Step]]] = field(default_factory=list)
    emitted: list[Event] = field(default_factory=list)
    touched: dict[str, Run] = field(default_factory=dict)

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
            run.singleton_key, int(run.quiet), parent_run, parent_step, run.req_version, run.priority, run.replay_of,
        )  # fmt: skip
        for position, event in enumerate(run.batch):
            self.add(
                "INSERT INTO run_events (run_id, position, event_id) VALUES (?,?,?)",
                run.id, position, event.internal_id,
            )  # fmt: skip
        self.touched[run.id] = run

    def held(self, start: Held, event: Event) -> None:
        """One event of a start that waits."""
        parent_run, parent_step = start.parent or (None, None)
        self.add(
            _INSERT_HELD, start.id, event.internal_id, start.why, start.function, start.key, start.due_ms,
            start.latest_ms, parent_run, parent_step,
        )  # fmt: skip

    def unheld(self, start: Held) -> None:
        self.add("DELETE FROM held WHERE start_id = ?", start.id)

    def rate(self, policy: str, function: str, key: str, tat_us: int) -> None:
        self.add("INSERT OR REPLACE INTO rates (policy, function, key, tat) VALUES (?,?,?,?)",
                 policy, function, key, tat_us)  # fmt: skip

    def started(self, run: Run) -> None:
        """The first call of a run that was scheduled for later."""
        if run.status == SCHEDULED:
            run.status, run.started_ms = RUNNING, self.now_ms
            self.add("UPDATE runs SET status = ?, started_at = ? WHERE id = ?", RUNNING, self.now_ms, run.id)
            self.touched[run.id] = run

    def version(self, run: Run, version: int) -> None:
        if run.req_version != version:
            run.req_version = version
            self.add("UPDATE runs SET req_version = ? WHERE id = ?", version, run.id)

    def run_ended(self, run: Run, status: str, output: str | None, reason: str | None = None) -> None:
        run.status = status
        self.add(
            "UPDATE runs SET status = ?, ended_at = ?, output = ?, started_at = coalesce(started_at, ?), reason = ? "
            "WHERE id = ?",
            status, self.now_ms, output, self.now_ms, reason, run.id,
        )  # fmt: skip
        self.touched[run.id] = run

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
        self.touched[run.id] = run

    def step_finished(
        self, run: Run, step: Step, status: str, memo: str, position: int, attempt: int, started_ms: int
    ) -> None:
        self.add(
            _INSERT_STEP, run.id, step.id, step.name, step.op, status, position, attempt, step.target, step.opts, memo,
            int(step.parallel), int(step.race), step.created_ms, started_ms, self.now_ms, step.due_ms,
        )  # fmt: skip
        self.touched[run.id] = run

    def attempt_failed(self, run: Run, step_id: str, attempt: int, started_ms: int, error: str) -> None:
        self.add(
            "INSERT INTO failures (run_id, step_id, attempt, started_at, ended_at, error) VALUES (?,?,?,?,?,?)",
            run.id, step_id, attempt, started_ms, self.now_ms, error,
        )  # fmt: skip

    def job(self, job: Job, *, admitted: bool) -> None:
        """A new call; one that is due and admitted is claimed in the same transaction."""
        job.claimed = admitted
        job.run.jobs[job.id] = job
        self.add(
            _INSERT_JOB, job.id, job.run.id, job.step_id, job.due_ms, job.attempt, int(job.parallel), int(job.claimed)
        )
        if job.claimed:
            self.ready.append(job)
        elif job.due_ms > self.now_ms:
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
        job.attempt, job.due_ms, job.claimed = job.attempt + 1, due_ms, False
        self.add(
            "UPDATE jobs SET attempt = ?, due_at = ?, claimed = 0, interruptions = 0 WHERE id = ?",
            job.attempt, due_ms, job.id,
        )  # fmt: skip
        self.timed.append((due_ms, job))

    def job_postponed(self, job: Job, due_ms: int) -> None:
        """The app could not be reached: it is tried again for as long as it takes, and no attempt is used up."""
        job.due_ms, job.claimed, job.unreached = due_ms, False, job.unreached + 1
        self.add("UPDATE jobs SET due_at = ?, claimed = 0, interruptions = 0 WHERE id = ?", due_ms, job.id)
        self.timed.append((due_ms, job))

    def job_done(self, job: Job) -> None:
        job.dropped = True
        job.run.jobs.pop(job.id, None)
        self.add("DELETE FROM jobs WHERE id = ?", job.id)

    def moment(self, moment: Moment) -> None:
        """Something with a moment of its own."""
        self.timed.append((moment.due_ms, moment))

    def timer(self, run: Run, step: Step) -> None:
        if step.due_ms is not None:
            self.timed.append((step.due_ms, (run, step)))
