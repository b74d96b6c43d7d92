"""What people do with runs and functions: cancel, replay, pause, resume; each is one Change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.change import Change
from app.engine.clock import iso, parse_iso
from app.engine.core import Core
from app.engine.errors import BadRequest, UnknownFunction, UnknownRun, UnknownStep
from app.engine.expressions import Expression
from app.engine.functions import Function
from app.engine.model import Event, Run, to_json

_NOBODY = "00000000-0000-0000-0000-000000000000"
_COPY_STEPS = (
    "INSERT INTO steps SELECT ?, id, name, op, status, position, attempt, target, opts, memo, parallel, race, "
    "created_at, started_at, ended_at, due_at FROM steps WHERE run_id = ? AND position < ?"
)


async def cancel(core: Core, run_id: str) -> bool:
    """Cancel an open run; False when it is not open."""
    run = core.live.runs.get(run_id)
    if run is None:
        return False
    change = Change(core.now_ms())
    core.ending.cancel(change, run)
    core.intake.settle(change)
    await core.commit(change)
    return True


async def replay(core: Core, run_id: str, from_step: str | None) -> str:
    """Run again with the same events; the memos of the steps before `from_step` (its id, or its name) are kept.

    What holds starts back (rate limits, batches, debounce, singleton) does not count: somebody asked for this run.
    Raises UnknownRun, UnknownStep, UnknownFunction (it is not registered any more).
    """
    rows = await core.store.rows("SELECT function FROM runs WHERE id = ?", run_id)
    if not rows:
        raise UnknownRun(f"There is no run {run_id}.")
    function = core.registry.startable(rows[0]["function"])
    if function is None:
        raise UnknownFunction(f"Function '{rows[0]['function']}' is not registered any more.")
    before = await _position(core, run_id, from_step) if from_step is not None else 1
    events = await _events(core, run_id)
    change = Change(core.now_ms())
    run = core.starts.begin(change, function, events, replay_of=run_id, finished_steps=before - 1)
    change.add(_COPY_STEPS, run.id, run_id, before)
    await core.commit(change)
    return run.id


async def set_paused(core: Core, slug: str, paused: bool) -> None:
    """Pause or resume a function; raises UnknownFunction."""
    change = Change(core.now_ms())
    function = core.registry.startable(slug)
    if core.registry.set_paused(change, slug, paused) and not paused and function is not None:
        core.gates.resume(change, slug)
        core.starts.resume(change, function)
        core.intake.settle(change)
    await core.commit(change)


@dataclass(frozen=True, slots=True)
class BulkCancellation:
    """Which open runs to cancel, as asked for over REST."""

    function: Function
    after_ms: int | None
    before_ms: int
    condition: Expression | None

    def covers(self, run: Run, now_ms: int) -> bool:
        """Whether a run is among them."""
        if run.created_ms >= self.before_ms or (self.after_ms is not None and run.created_ms < self.after_ms):
            return False
        return self.condition is None or self.condition.test({"event": run.event.body}, now_ms)


async def cancel_many(core: Core, body: Any) -> dict[str, Any]:
    """`POST /v1/cancellations`; returns the record. Raises BadRequest, UnknownFunction, BadExpression."""
    asked = body if isinstance(body, dict) else {}
    now_ms = core.now_ms()
    wanted = _bulk(core, asked, now_ms)
    change = Change(now_ms)
    for run in core.live.of_function(wanted.function.slug):
        if wanted.covers(run, now_ms):
            core.ending.cancel(change, run, "A bulk cancellation covers it.")
    core.intake.settle(change)
    record = {
        "id": core.ulids.new(),
        "created_at": iso(now_ms),
        "environment_id": _NOBODY,
        "function_id": asked["function_id"],
        "function_internal_id": wanted.function.uuid,
        "started_after": None if wanted.after_ms is None else iso(wanted.after_ms),
        "started_before": iso(wanted.before_ms),
        **({"if": asked["if"]} if asked.get("if") else {}),
    }
    change.add("INSERT INTO cancellations (id, created_at, body) VALUES (?,?,?)", record["id"], now_ms, to_json(record))
    await core.commit(change)
    return record


def _bulk(core: Core, asked: Mapping[str, Any], now_ms: int) -> BulkCancellation:
    for field in ("app_id", "function_id", "started_before"):
        if not asked.get(field):
            raise BadRequest(f"{field} is required")
    before_ms, after = parse_iso(str(asked["started_before"])), asked.get("started_after")
    after_ms = parse_iso(str(after)) if after else None
    if before_ms is None or (after and after_ms is None):
        raise BadRequest("started_after and started_before must be moments such as 2026-11-30T16:43:00Z")
    if before_ms > now_ms:
        raise BadRequest("started_before must be in the past")
    if after_ms is not None and after_ms > before_ms:
        raise BadRequest("started_after must be before started_before")
    slug = f"{asked['app_id']}-{asked['function_id']}"
    function = core.registry.function(slug) or core.registry.function(str(asked["function_id"]))
    if function is None or function.app != asked["app_id"]:
        raise UnknownFunction("function not found")
    source = asked.get("if")
    return BulkCancellation(function, after_ms, before_ms, Expression.compile(str(source)) if source else None)


async def _position(core: Core, run_id: str, step: str) -> int:
    """The position from which memos are not kept."""
    rows = await core.store.rows(
        "SELECT position FROM steps WHERE run_id = ? AND (id = ? OR name = ?) "
        "ORDER BY id <> ?, position IS NULL, position LIMIT 1",
        run_id, step, step, step,
    )  # fmt: skip
    if not rows:
        raise UnknownStep(f"Run {run_id} has no step '{step}'.")
    if rows[0]["position"] is not None:
        return int(rows[0]["position"])
    last = await core.store.rows("SELECT count(position) AS finished FROM steps WHERE run_id = ?", run_id)
    return int(last[0]["finished"]) + 1


async def _events(core: Core, run_id: str) -> list[Event]:
    rows = await core.store.rows(
        "SELECT internal_id, body, received_at FROM run_events JOIN events ON internal_id = event_id "
        "WHERE run_id = ? ORDER BY position",
        run_id,
    ) or await core.store.rows(
        "SELECT internal_id, body, received_at FROM runs JOIN events ON internal_id = event_id WHERE runs.id = ?",
        run_id,
    )  # fmt: skip
    return [Event.stored(row["internal_id"], row["body"], row["received_at"]) for row in rows]
