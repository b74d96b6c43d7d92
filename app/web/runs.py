"""Runs as JSON, from the embedded engine."""

from typing import Any

from app.engine.engine import Engine
from app.engine.errors import UnknownRun
from app.errors import NotFound, ServiceUnavailable
from app.events import wire_safe


class EmbeddedRuns:
    """Reads the embedded engine's own records. Implements `Runs`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def runs(self, limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
        rows = await self._engine.runs(limit=limit, status=status, function=function)
        return [_run(row) for row in rows]

    async def run(self, run_id: str) -> dict[str, Any]:
        try:
            trace = await self._engine.run(run_id)
        except UnknownRun as error:
            raise NotFound(f"There is no run {run_id!r}.") from error
        steps = [_step(step) for step in trace.steps]
        return {"run": _run(trace.run) | {"event": wire_safe(trace.event)}, "steps": steps}


class RemoteRuns:
    """With Inngest the runs live there. Implements `Runs`."""

    async def runs(self, limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
        raise ServiceUnavailable("The runs are kept by Inngest: look at its dashboard.")

    async def run(self, run_id: str) -> dict[str, Any]:
        raise ServiceUnavailable("The runs are kept by Inngest: look at its dashboard.")


def _run(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "function": row.function,
        "status": row.status,
        "startedAt": _time(row.started_at or row.created_at),
        "endedAt": _time(row.ended_at),
        "event": row.event_name,
        "output": wire_safe(row.output),
    }


def _step(step: Any) -> dict[str, Any]:
    return {
        "id": step.id,
        "name": step.name,
        "op": step.op,
        "status": step.status,
        "attempts": len(step.failures) + (1 if step.status in ("Completed", "Open") else 0),
        "startedAt": _time(step.started_at or step.created_at),
        "endedAt": _time(step.ended_at),
        "input": wire_safe(step.input),
        "output": wire_safe(step.output),
        "error": wire_safe(step.error),
    }


def _time(value: Any) -> str | None:
    return value.isoformat() if value is not None else None
