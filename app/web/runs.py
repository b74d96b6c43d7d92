"""Runs, events and functions as JSON, from the embedded engine."""

import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, cast

from app.engine.engine import Engine
from app.engine.errors import (
    BadEvent,
    BadRequest,
    EngineError,
    EngineStopped,
    StoreFailed,
    UnknownEvent,
    UnknownFunction,
    UnknownRun,
    UnknownStep,
)
from app.engine.feed import RunChange
from app.errors import BadInput, MoabError, NotFound, ServiceUnavailable
from app.events import CLOCK, BeatDue, wire_safe

SESSION_FIELDS = ("$.data.sessionKey", "$.data.subSessionKey", "$.data.event.data.sessionKey")
"""Where an event names its session: ours, a sub-agent's, and the event inside an announcement of the engine."""
MESSAGE_FIELDS = ("$.data.messageKey", "$.data.event.data.messageKey")

BEATS = (CLOCK, BeatDue.name)
"""What starts the beats of the clock: those that went well are shown where they are asked for."""

ROUNDS = 20
"""How many pages are searched for the runs of one session."""

NOT_SHOWN = {"id", "name", "triggers", "steps"}
"""Of a function's configuration: what is told elsewhere, and where its app is called."""

TRANSLATED: tuple[tuple[tuple[type[EngineError], ...], type[MoabError]], ...] = (
    ((UnknownRun, UnknownStep, UnknownEvent, UnknownFunction), NotFound),
    ((BadEvent, BadRequest), BadInput),
    ((EngineStopped, StoreFailed), ServiceUnavailable),
)


class EmbeddedRuns:
    """Reads and steers the embedded engine. Implements `Runs` and `Desk`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def runs(
        self,
        limit: int,
        status: str | None,
        function: str | None,
        session: str | None = None,
        before: str | None = None,
    ) -> list[dict[str, Any]]:
        any_kind = status is None and function is None and session is None
        status = status.capitalize() if status is not None else None
        function = await self._full(function) if function is not None else None
        found: list[dict[str, Any]] = []
        for _ in range(ROUNDS):
            with _translated():
                rows = await self._engine.runs(
                    limit=limit,
                    status=status,
                    function=function,
                    before=before,
                    text=session,
                    without=BEATS if any_kind else (),
                )
                sessions = await self._sessions([row.event_id for row in rows])
            shown = [_run(row, sessions.get(row.event_id)) for row in rows]
            found += [run for run in shown if session is None or run["sessionKey"] == session]
            if len(rows) < limit or len(found) >= limit:
                break
            before = rows[-1].id
        return found[:limit]

    async def forget(self, session_keys: Sequence[str], message_keys: Sequence[str]) -> tuple[int, int] | None:
        with _translated():
            return await self._engine.forget((*SESSION_FIELDS, *MESSAGE_FIELDS), (*session_keys, *message_keys))

    async def run(self, run_id: str) -> dict[str, Any]:
        with _translated():
            run_id = await self._whole(run_id)
            try:
                trace = await self._engine.run(run_id)
            except UnknownRun as error:
                raise NotFound(f"There is no run {run_id!r}.") from error
            sessions = await self._sessions([trace.run.event_id])
        run = _run(trace.run, sessions.get(trace.run.event_id)) | {"event": wire_safe(trace.event)}
        failures = [_attempt(failure) for failure in trace.failures]
        return {"run": run, "steps": [_step(step) for step in trace.steps], "failures": failures}

    async def events(self, limit: int, name: str | None, before: str | None) -> list[dict[str, Any]]:
        with _translated():
            return [_event(row) for row in await self._engine.events(limit=limit, name=name, before=before)]

    async def event(self, event_id: str) -> dict[str, Any]:
        with _translated():
            trace = await self._engine.event(event_id)
            sessions = await self._sessions([row.event_id for row in trace.runs])
        runs = [_run(row, sessions.get(row.event_id)) for row in trace.runs]
        return {"event": _event(trace.event), "runs": runs}

    async def functions(self) -> list[dict[str, Any]]:
        with _translated():
            return [_function(row) for row in await self._engine.functions()]

    async def send(self, name: str, data: dict[str, Any]) -> str:
        with _translated():
            return (await self._engine.send([{"name": name, "data": wire_safe(data)}]))[0]

    async def replay(self, run_id: str, from_step: str | None = None) -> str:
        with _translated():
            return await self._engine.replay(run_id, from_step)

    async def cancel(self, run_id: str) -> None:
        with _translated():
            await self._engine.cancel(run_id)

    async def pause(self, function: str) -> None:
        with _translated():
            await self._engine.pause(function)

    async def resume(self, function: str) -> None:
        with _translated():
            await self._engine.resume(function)

    async def changes(self) -> AsyncGenerator[str, None]:
        changes = cast(AsyncGenerator[RunChange, None], self._engine.changes())
        async with contextlib.aclosing(changes):
            async for change in changes:
                yield change.run_id

    async def _full(self, function: str) -> str:
        """The full id of a function that may be named without its app's. Raises NotFound with those there are."""
        if self._engine.registry.function(function) is not None:  # also one that is no more
            return function
        known = await self._engine.functions()
        meant = [row.id for row in known if row.id == f"{row.app}-{function}"]
        if not meant:
            names = ", ".join(row.id.removeprefix(f"{row.app}-") for row in known)
            raise NotFound(f"There is no function {function!r}; accepted: {names}.")
        return meant[0]

    async def _whole(self, beginning: str) -> str:
        """The id of the one run whose id begins so; `beginning` itself where there is none. Raises BadInput for two."""
        beginning = beginning.strip().upper()
        found = await self._engine.run_ids(beginning)
        if len(found) > 1:
            raise BadInput(f"Several runs begin with {beginning}: {', '.join(found)}, …")
        return found[0] if found else beginning

    async def _sessions(self, event_ids: Sequence[str]) -> Mapping[str, str]:
        """The session that each of these events names; read field by field, because payloads may be large."""
        wanted = sorted(set(event_ids))
        fields = ", ".join(f"json_extract(body, '{field}')" for field in SESSION_FIELDS)
        rows = await self._engine.store.rows(
            f"SELECT internal_id, coalesce({fields}) FROM events "  # noqa: S608 - constants and question marks
            f"WHERE internal_id IN ({', '.join('?' * len(wanted))})",
            *wanted,
        )
        return {str(row[0]): str(row[1]) for row in rows if row[1] is not None}


class RemoteRuns:
    """With Inngest the runs live there. Implements `Runs`."""

    async def runs(self, limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
        raise ServiceUnavailable("The runs are kept by Inngest: look at its dashboard.")

    async def forget(self, session_keys: Sequence[str], message_keys: Sequence[str]) -> tuple[int, int] | None:
        return None  # they lie with Inngest

    async def run(self, run_id: str) -> dict[str, Any]:
        raise ServiceUnavailable("The runs are kept by Inngest: look at its dashboard.")


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except EngineError as error:
        ours = next((ours for theirs, ours in TRANSLATED if isinstance(error, theirs)), MoabError)
        raise ours(str(error)) from error


def _run(row: Any, session: str | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "function": row.function,
        "status": row.status,
        "createdAt": _time(row.created_at),
        "startedAt": _time(row.started_at or row.created_at),
        "endedAt": _time(row.ended_at),
        "event": row.event_name,
        "eventId": row.event_id,
        "sessionKey": session,
        "parentRun": row.parent_run,
        "replayOf": row.replay_of,
        "reason": row.reason,
        "output": wire_safe(row.output),
    }


def _step(step: Any) -> dict[str, Any]:
    return {
        "id": step.id,
        "name": step.name,
        "op": step.op,
        "status": step.status,
        "attempts": len(step.failures) + (1 if step.status in ("Completed", "Open") else 0),
        "target": step.target,
        "createdAt": _time(step.created_at),
        "startedAt": _time(step.started_at or step.created_at),
        "endedAt": _time(step.ended_at),
        "dueAt": _time(step.due_at),
        "input": wire_safe(step.input),
        "output": wire_safe(step.output),
        "error": wire_safe(step.error),
        "failures": [_attempt(failure) for failure in step.failures],
    }


def _attempt(row: Any) -> dict[str, Any]:
    return {
        "attempt": row.attempt,
        "startedAt": _time(row.started_at),
        "endedAt": _time(row.ended_at),
        "error": wire_safe(row.error),
    }


def _event(row: Any) -> dict[str, Any]:
    return {
        "id": row.id,
        "eventId": row.event_id,
        "name": row.name,
        "data": wire_safe(row.data),
        "receivedAt": _time(row.received_at),
        "source": row.source,
    }


def _function(row: Any) -> dict[str, Any]:
    policies = {name: value for name, value in row.config.items() if name not in NOT_SHOWN and value}
    steps = (row.config.get("steps") or {}).values()
    retries = [step["retries"]["attempts"] for step in steps if step.get("retries")]
    return {
        "id": row.id,
        "name": row.name,
        "app": row.app,
        "triggers": wire_safe(row.triggers),
        "config": wire_safe(policies | ({"attempts": retries[0]} if retries else {})),
        "paused": row.paused,
    }


def _time(value: Any) -> str | None:
    return value.isoformat() if value is not None else None
