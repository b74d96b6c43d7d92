"""Applying an app's answer to its run: memoize, plan, wait, invoke, try again, end."""

import logging
import random
import uuid
from collections.abc import Callable
from typing import Any

from app.engine.change import Change
from app.engine.clock import parse_iso
from app.engine.ending import Ending
from app.engine.errors import BadExpression
from app.engine.expressions import Expression
from app.engine.functions import Function
from app.engine.gateway import INFERENCE, without_secrets
from app.engine.ids import Ulids, app_uuid
from app.engine.live import Live, Wait
from app.engine.model import DISCOVERY, Event, Job, Run, Step, to_json
from app.engine.registry import Registry
from app.engine.retry import FREE_INTERRUPTIONS, retry_at
from app.engine.starts import Started, Starts
from app.engine.steps import Steps, error, expires_at
from app.engine.wire import Failure, Operation, Operations, Outcome, Returned

log = logging.getLogger("moab.engine")
MAX_STEPS = 1_000
MAX_STEP_BYTES = 4_000_000
MAX_STATE_BYTES = 32_000_000
_YEAR_MS = 31_536_000_000


class Answers:
    """Turns outcomes into changes. Every method works inside one Change and does no I/O."""

    def __init__(
        self, live: Live, registry: Registry, steps: Steps, ending: Ending, starts: Starts, ulids: Ulids,
        jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._live = live
        self._registry = registry
        self._steps = steps
        self._ending = ending
        self._starts = starts
        self._ulids = ulids
        self._jitter = jitter
        self._openers = {
            "StepPlanned": self._plan,
            "Sleep": self._sleep,
            "WaitForEvent": self._wait,
            "InvokeFunction": self._invoke,
            INFERENCE: self._infer,
        }

    def apply(self, change: Change, function: Function, job: Job, outcome: Outcome, started_ms: int) -> None:
        """The answer of a call that was made for `job`, begun at `started_ms`."""
        run = job.run
        if isinstance(outcome, Returned):
            change.job_done(job)
            if self._fits(change, run, to_json(outcome.value), "The function's return value"):
                self._ending.complete(change, run, outcome.value)
        elif isinstance(outcome, Failure):
            self._failed(change, function, job, outcome, started_ms)
        else:
            self._operate(change, function, job, outcome, started_ms)

    def give_up(self, change: Change, function: Function, job: Job) -> None:
        """A call that was cut off by the end of the process so often that no attempt is left."""
        run = job.run
        message = f"The process ended {FREE_INTERRUPTIONS + function.max_attempts} times during this call."
        step = run.open.get(job.step_id)
        change.job_done(job)
        if step is not None:
            self._refuse(change, run, step, "Interrupted", message)
        else:
            self._ending.fail(change, run, {"name": "Interrupted", "message": message})

    def _failed(self, change: Change, function: Function, job: Job, failure: Failure, started_ms: int) -> None:
        run = job.run
        change.attempt_failed(run, job.step_id, job.attempt, started_ms, to_json(failure.output))
        if not failure.is_attempt:
            change.job_postponed(job, retry_at(change.now_ms, job.unreached, self._jitter(), None))
            return
        if failure.no_retry or job.attempt + 1 >= function.max_attempts:
            log.info("Run %s of %s failed: %s. It is not tried again.", run.id, run.function, failure.reason)
            change.job_done(job)
            self._ending.fail(change, run, failure.output, failure.reason)
            return
        self._again(change, job, failure.retry_after, failure.reason)

    def _again(self, change: Change, job: Job, retry_after: str | None, reason: str) -> None:
        due_ms = retry_at(change.now_ms, job.attempt, self._jitter(), retry_after)
        log.info(
            "Attempt %d of run %s failed: %s. The next one follows in %.1f s.",
            job.attempt + 1, job.run.id, reason, (due_ms - change.now_ms) / 1000,
        )  # fmt: skip
        change.job_retried(job, due_ms)

    def _operate(self, change: Change, function: Function, job: Job, answer: Operations, started_ms: int) -> None:
        run = job.run
        change.version(run, answer.version)
        known = run.memos.known if run.memos else set()
        fresh = [item for item in answer.items if item.id not in known]
        retried = self._retry_step(change, function, job, answer, started_ms)
        if retried:
            return
        change.job_done(job)
        parallel = job.parallel if job.step_id != DISCOVERY else len(answer.items) > 1
        for item in fresh:
            if item.op in ("StepRun", "StepError", "StepFailed"):
                self._result(change, job, item, parallel, started_ms)
            elif item.id not in run.open:
                self._open(change, function, run, item, parallel)
            if run.ended:
                return
        self._check(change, job)

    def _retry_step(self, change: Change, function: Function, job: Job, answer: Operations, started_ms: int) -> bool:
        """Plan the next attempt of a step that failed; False when nothing failed or no attempt is left."""
        failed = next((item for item in answer.items if item.op == "StepError"), None)
        if failed is None or answer.no_retry or job.attempt + 1 >= function.max_attempts:
            return False
        change.attempt_failed(job.run, failed.id, job.attempt, started_ms, to_json(failed.error))
        self._again(change, job, None, f"step {failed.label}: {(failed.error or {}).get('message', '')}")
        return True

    def _result(self, change: Change, job: Job, item: Operation, parallel: bool, started_ms: int) -> None:
        run = job.run
        step = run.open.get(item.id) or Step(item.id, item.label, "StepRun", parallel, item.race, started_ms)
        failed = item.op != "StepRun"
        if failed:
            shown = {key: value for key, value in (item.error or {}).items() if key != "code" and value is not None}
            memo = to_json({"error": {"name": "Error", "message": "", **shown}})
            change.attempt_failed(run, item.id, job.attempt, started_ms, to_json(item.error))
        else:
            memo = to_json({"data": item.data})
        for other in [other for other in run.jobs.values() if other.step_id == item.id]:
            change.job_done(other)  # planned as well by a racing branch: it must not run twice
        if self._fits(change, run, memo, f"The output of step '{item.label}'"):
            if step.op == INFERENCE:
                step.opts = without_secrets(step.opts)
            self._steps.finish(change, run, step, memo, failed=failed, attempt=job.attempt, started_ms=started_ms)

    def _fits(self, change: Change, run: Run, text: str, what: str) -> bool:
        """Inngest's limits; a run over one of them fails with the limit named."""
        size = run.memos.size if run.memos else 0
        if len(text) > MAX_STEP_BYTES:
            problem = f"{what} has {len(text)} bytes; at most {MAX_STEP_BYTES} are accepted."
        elif size + len(text) > MAX_STATE_BYTES:
            total = size + len(text)
            problem = f"{what} brings the run's state to {total} bytes; at most {MAX_STATE_BYTES} are accepted."
        else:
            return True
        self._over_limit(change, run, problem)
        return False

    def _over_limit(self, change: Change, run: Run, problem: str) -> None:
        log.warning("Run %s of %s fails: %s", run.id, run.function, problem)
        self._ending.fail(change, run, {"name": "LimitExceeded", "message": problem})

    def _check(self, change: Change, job: Job) -> None:
        """Nothing may hang: a run over its step limit, or with nothing left to wait for, fails."""
        run = job.run
        count = run.finished_steps + len(run.open)
        if count > MAX_STEPS:
            self._over_limit(change, run, f"The run has {count} steps; at most {MAX_STEPS} are accepted.")
        elif job.step_id in run.open and run.open[job.step_id].op == "StepRun":
            problem = f"The app did not answer for the planned step '{run.open[job.step_id].name}'."
            self._ending.fail(change, run, {"name": "StepUnanswered", "message": problem})
        elif not run.open and not run.jobs:
            problem = "The app reported only steps that are finished already; the run cannot go on."
            self._ending.fail(change, run, {"name": "NoProgress", "message": problem})

    def _open(self, change: Change, function: Function, run: Run, item: Operation, parallel: bool) -> None:
        opener = self._openers.get(item.op)
        step = Step(
            id=item.id, name=item.label, op="StepRun" if item.op == "StepPlanned" else item.op,
            parallel=parallel, race=item.race, created_ms=change.now_ms,
            opts=to_json(item.opts) if item.opts else None,
        )  # fmt: skip
        if opener is None:
            self._refuse(change, run, step, "UnsupportedOperation", f"This engine has no operation '{item.op}'.")
            return
        opener(change, function, run, step, item)

    def _refuse(self, change: Change, run: Run, step: Step, name: str, message: str) -> None:
        self._steps.finish(change, run, step, to_json({"error": error(name, message)}), failed=True)

    def _plan(self, change: Change, function: Function, run: Run, step: Step, item: Operation) -> None:
        self._steps.open(change, run, step)
        self._steps.call(change, run, step.id, parallel=step.parallel)

    def _infer(self, change: Change, function: Function, run: Run, step: Step, item: Operation) -> None:
        """A call of a model, which the engine makes itself: a step like any other, but for who executes it."""
        step.target = str(item.opts.get("url") or "")
        self._steps.open(change, run, step)
        self._steps.call(change, run, step.id, parallel=step.parallel)

    def _sleep(self, change: Change, function: Function, run: Run, step: Step, item: Operation) -> None:
        step.due_ms = parse_iso(item.name)
        if step.due_ms is None:
            self._refuse(change, run, step, "InvalidSleep", f"'{item.name}' is no moment to sleep until.")
            return
        self._steps.open(change, run, step)

    def _wait(self, change: Change, function: Function, run: Run, step: Step, item: Operation) -> None:
        step.target = item.name
        step.due_ms = expires_at(change.now_ms, item.opts.get("timeout"), _YEAR_MS)
        source = item.opts.get("if")
        try:
            condition = Expression.compile(str(source)) if source else None
        except BadExpression as problem:
            self._refuse(change, run, step, "InvalidExpression", str(problem))
            return
        if step.due_ms is None:
            self._refuse(change, run, step, "InvalidTimeout", f"'{item.opts.get('timeout')}' is no time-out.")
            return
        self._steps.open(change, run, step)
        self._live.wait(Wait(run, step, condition))

    def _invoke(self, change: Change, function: Function, run: Run, step: Step, item: Operation) -> None:
        step.target = str(item.opts.get("function_id") or "")
        step.due_ms = expires_at(change.now_ms, item.opts.get("timeout"), _YEAR_MS)
        callee = self._registry.startable(step.target)
        if callee is None:
            message = f"could not find function with ID: {step.target}"
            self._refuse(change, run, step, "FunctionNotFound", message)
            return
        if step.due_ms is None:
            self._refuse(change, run, step, "InvalidTimeout", f"'{item.opts.get('timeout')}' is no time-out.")
            return
        event = self._invocation(change, function, run, step, item)
        change.event(event, 2)
        self._steps.open(change, run, step)
        if self._starts.start(change, callee, event, (run.id, step.id)) is Started.DROPPED:
            self._starts.tell_dropped(change, callee.slug, (run.id, step.id))

    def _invocation(self, change: Change, function: Function, run: Run, step: Step, item: Operation) -> Event:
        """The event that the invoked function sees, as recorded."""
        payload = item.opts.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        given = payload.get("data")
        about: dict[str, Any] = {
            "correlation_id": f"{run.id}.{step.id}",
            "expire": step.due_ms,
            "fn_id": step.target,
            "gid": str(uuid.uuid4()),
            "name": step.name,
            "source_app_id": app_uuid(function.app),
            "source_fn_id": function.uuid,
            "source_fn_v": 1,
        }
        internal_id = self._ulids.new()
        body = {
            "data": {**(given if isinstance(given, dict) else {}), "_inngest": about},
            "id": internal_id,
            "name": "inngest/function.invoked",
            "ts": change.now_ms,
            "user": {},
            **({"v": payload["v"]} if payload.get("v") else {}),
        }
        return Event(internal_id, body, change.now_ms)
