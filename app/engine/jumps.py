"""The clock was set back: what waits for a length of time goes on waiting for the same length, not for the old moment.

Sleeps are moments of the wall clock and stay. Cron schedules are in `crons.py`.
"""

from app.engine.change import Change
from app.engine.live import Live
from app.engine.model import Held, Job, Moment, Run, Step

#: Steps that wait for a length of time; `Sleep` names a moment.
_LENGTHS = ("WaitForEvent", "InvokeFunction")


def shift_back(change: Change, live: Live, by_ms: int) -> None:
    """Bring everything that waits for a length of time forward by what the clock lost."""
    for run in live.runs.values():
        for job in run.jobs.values():
            if job.attempt > 0 and not job.claimed and job.due_ms > change.now_ms:
                _job(change, job, by_ms)
        for step in run.open.values():
            if step.op in _LENGTHS and step.due_ms is not None:
                _step(change, run, step, by_ms)
    for rate, tat_us in live.rates.items():
        if tat_us > change.now_ms * 1000:
            live.rates[rate] = tat_us - by_ms * 1000
            change.rate(*rate, live.rates[rate])
    for held in live.held.values():
        if held.moment is not None:
            _held(change, held, by_ms)


def _job(change: Change, job: Job, by_ms: int) -> None:
    if job.timer is not None:
        job.timer.cancel()
    job.due_ms -= by_ms
    change.add("UPDATE jobs SET due_at = ? WHERE id = ?", job.due_ms, job.id)
    change.timed.append((job.due_ms, job))


def _step(change: Change, run: Run, step: Step, by_ms: int) -> None:
    if step.timer is not None:
        step.timer.cancel()
    step.due_ms = (step.due_ms or 0) - by_ms
    change.add("UPDATE steps SET due_at = ? WHERE run_id = ? AND id = ?", step.due_ms, run.id, step.id)
    change.timer(run, step)


def _held(change: Change, held: Held, by_ms: int) -> None:
    if held.moment is None:
        return
    held.moment.cancel()
    held.due_ms = (held.due_ms or 0) - by_ms
    held.latest_ms = None if held.latest_ms is None else held.latest_ms - by_ms
    held.moment = Moment(held.due_ms, held.moment.act)
    change.add(
        "UPDATE held SET due_at = ?, latest_at = ? WHERE start_id = ?", held.due_ms, held.latest_ms, held.id
    )  # fmt: skip
    change.moment(held.moment)
