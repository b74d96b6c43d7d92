"""How a run ends: its row, its invoker's memo, and the lifecycle events that tell the others."""

import logging
from typing import Any

from app.engine.change import Change
from app.engine.ids import Ulids
from app.engine.live import Live
from app.engine.model import CANCELLED, FAILED, Event, Run, to_json
from app.engine.steps import Steps, error

log = logging.getLogger("moab.engine")


class Ending:
    """Ends runs inside a Change; the caller lets Intake settle what was emitted."""

    def __init__(self, live: Live, steps: Steps, ulids: Ulids) -> None:
        self._live = live
        self._steps = steps
        self._ulids = ulids

    def complete(self, change: Change, run: Run, output: Any) -> None:
        self._end(change, run, "Completed", {"result": output}, {"data": output}, to_json(output))

    def fail(self, change: Change, run: Run, output: Any, reason: str | None = None) -> None:
        """`output` is the error as the app answered it; `reason` what Inngest puts into `error.error`."""
        shown = output if isinstance(output, dict) else {"message": str(output)}
        summary = {
            "error": reason or shown.get("name") or "Error",
            "message": shown.get("message", ""),
            "name": shown.get("name") or "Error",
            **({"stack": shown["stack"]} if shown.get("stack") else {}),
        }
        self._end(change, run, FAILED, {"error": summary, "result": output}, {"error": summary}, to_json(output))

    def cancel(self, change: Change, run: Run, reason: str | None = None) -> None:
        """What is in flight goes on and is dropped when it answers. `reason` is for people, and kept."""
        if reason:
            log.info("Run %s of %s is cancelled: %s", run.id, run.function, reason)
        memo = {"error": error("FunctionCancelled", "The invoked function was cancelled")}
        self._end(change, run, CANCELLED, {}, memo, "{}", reason)

    def _end(
        self, change: Change, run: Run, status: str, facts: dict[str, Any], memo: dict[str, Any], output: str,
        reason: str | None = None,
    ) -> None:  # fmt: skip
        run.ended = True
        for job in run.jobs.values():
            job.dropped = True
            change.add("DELETE FROM jobs WHERE id = ?", job.id)
        timers = [job.timer for job in run.jobs.values()] + [step.timer for step in run.open.values()]
        for timer in timers:
            if timer is not None:
                timer.cancel()
        if run.deadline is not None:
            run.deadline.cancel()
        run.jobs.clear()
        self._live.remove(run)
        if run.open:
            change.steps_cancelled(run)
        change.run_ended(run, status, output, reason)
        self._tell_invoker(change, run, memo)
        if not run.quiet:
            self._emit(change, run, status, facts)

    def _tell_invoker(self, change: Change, run: Run, memo: dict[str, Any]) -> None:
        if run.parent is None:
            return
        invoker = self._live.runs.get(run.parent[0])
        step = invoker.open.get(run.parent[1]) if invoker else None
        if invoker is not None and step is not None:
            self._steps.finish(change, invoker, step, to_json(memo), failed="error" in memo)

    def _emit(self, change: Change, run: Run, status: str, facts: dict[str, Any]) -> None:
        data: dict[str, Any] = {
            "_inngest": {"status": status},
            **facts,
            "event": run.event.body,
            "events": [
                {key: value for key, value in event.body.items() if key != "user" or value} for event in run.events
            ],
            "function_id": run.function,
            "run_id": run.id,
        }
        if run.parent is not None:
            data["correlation_id"] = ".".join(run.parent)
        names = ["inngest/function.finished"]
        if status in (FAILED, CANCELLED):
            names.append("inngest/function.failed" if status == FAILED else "inngest/function.cancelled")
        for name in names:
            internal_id = self._ulids.new()
            public_id = internal_id if name == "inngest/function.finished" else run.id
            body = {"data": data, "id": public_id, "name": name, "ts": change.now_ms, "user": {}}
            change.emitted.append(Event(internal_id, body, change.now_ms))
