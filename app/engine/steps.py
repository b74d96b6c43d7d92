"""What happens to steps: opened, finished (memo, order, next call); the one place that plans a discovery call."""

from app.engine.change import Change
from app.engine.clock import LATEST_MS, parse_duration
from app.engine.gates import Gates
from app.engine.live import Live
from app.engine.model import COMPLETED, DISCOVERY, FAILED, Job, Run, Step, to_json


class Steps:
    """Applies step results to a run, inside a Change."""

    def __init__(self, live: Live, gates: Gates) -> None:
        self._live = live
        self._gates = gates

    def open(self, change: Change, run: Run, step: Step) -> None:
        """A step that ends later: planned, asleep, waiting."""
        run.open[step.id] = step
        change.step_opened(run, step)
        change.timer(run, step)

    def call(self, change: Change, run: Run, step_id: str, *, parallel: bool, due_ms: int | None = None) -> Job:
        """Plan a call, which is claimed at once if it is due and nothing holds it back; `step_id` is a hash, or
        DISCOVERY."""
        job = Job(self._live.job_id(), run, step_id, due_ms or change.now_ms, parallel=parallel)
        change.job(job, admitted=job.due_ms <= change.now_ms and self._gates.enter(change, job))
        return job

    def finish(
        self, change: Change, run: Run, step: Step, memo: str, *, failed: bool = False, attempt: int = 0,
        started_ms: int | None = None,
    ) -> None:  # fmt: skip
        """Memoize a result. The memo is JSON exactly as calls carry it: `{"data": ..}`, `{"error": ..}` or raw."""
        run.open.pop(step.id, None)
        if step.timer is not None:
            step.timer.cancel()
        self._live.stop_waiting(run, step)
        run.finished_steps += 1
        if run.memos is not None:
            run.memos.add(step.id, memo.encode())
        started = step.created_ms if started_ms is None else started_ms
        change.step_finished(run, step, FAILED if failed else COMPLETED, memo, run.finished_steps, attempt, started)
        self.go_on(change, run, parallel=step.parallel, race=step.race)

    def go_on(self, change: Change, run: Run, *, parallel: bool, race: bool = False) -> None:
        """Plan the discovery call after a step; with others still open only in race mode."""
        if run.open and not race:
            return
        beside_others = bool(run.open) or any(job.step_id == DISCOVERY for job in run.jobs.values())
        self.call(change, run, DISCOVERY, parallel=parallel or beside_others)

    def time_out(self, change: Change, run: Run, step: Step) -> None:
        """The moment of an open step has come: a sleeper wakes, a wait or an invocation ends empty-handed."""
        if step.op == "InvokeFunction":
            memo = to_json({"error": error("InngestInvokeTimeoutError", INVOKE_TIMEOUT)})
            self.finish(change, run, step, memo, failed=True)
        else:
            self.finish(change, run, step, "null")


INVOKE_TIMEOUT = "Timed out waiting for invoked function to complete"


def error(name: str, message: str, stack: str | None = None) -> dict[str, str | None]:
    """The engine's own errors in the shape that memos and failed runs carry."""
    return {"error": f"{name}: {message}", "name": name, "message": message, "stack": stack}


def expires_at(now_ms: int, timeout: object, default_ms: int) -> int | None:
    """When a wait ends; None when the time-out cannot be read."""
    if timeout is None:
        return now_ms + default_ms
    length = parse_duration(timeout) if isinstance(timeout, str) else None
    return None if length is None else min(now_ms + length, LATEST_MS)
