"""Tracked tasks as people and machines look at them."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from app.db import Tx
from app.errors import NotFound
from app.events import wire_safe
from app.work import ledger, supervision
from app.work.monitor import Action, decide
from app.work.observation import Observation
from app.work.projection import Derived
from app.work.supervision import Supervision
from app.work.tracking import owner_of


def in_words(derived: Derived) -> str:
    """How a task stands, in one line."""
    parts = [f"Task {derived.task_id} is {derived.truth_state}"]
    if derived.current_step and not derived.is_terminal:
        parts.append(f"current step: {derived.current_step}")
    if derived.step_states:
        parts.append("steps: " + ", ".join(f"{name} {state}" for name, state in derived.step_states.items()))
    if derived.pending_external:
        parts.append("waits outside for " + ", ".join(one.name for one in derived.pending_external))
    return "; ".join(parts) + "." + "".join(f" {fault}" for fault in derived.inconsistencies)


def page(tx: Tx, task_id: str, now: datetime) -> dict[str, Any]:
    """Everything about one task as JSON: `observed`, `derived`, `supervision`, `action`. Raises NotFound."""
    seen = ledger.of_task(tx, task_id)
    if not seen:
        raise NotFound(f"There is no task {task_id}; `moab task list` shows those that there are.")
    derived = ledger.derived(tx, task_id)
    watch = supervision.find(tx, task_id)
    return {
        "id": task_id,
        "owner": owner_of(seen),
        "observed": [observed(one) for one in seen],
        "derived": derived.wire(),
        "supervision": None if watch is None else _plain(asdict(watch)),
        "action": None if watch is None else action(decide(derived, watch, now)),
    }


def listed(tx: Tx, limit: int, now: datetime) -> list[dict[str, Any]]:
    """A line of JSON for each task, the one observed last first."""
    return [_line(tx, task_id, now) for task_id in ledger.recent(tx, limit)]


def decisions(tx: Tx, now: datetime) -> list[dict[str, Any]]:
    """What the monitor would do about each task that is watched over, now."""
    return [_decision(tx, watch, now) for watch in supervision.everything(tx)]


def _decision(tx: Tx, watch: Supervision, now: datetime) -> dict[str, Any]:
    derived = ledger.derived(tx, watch.task_id)
    return {"id": watch.task_id, "goal": derived.goal, "action": action(decide(derived, watch, now))}


def _line(tx: Tx, task_id: str, now: datetime) -> dict[str, Any]:
    derived = ledger.derived(tx, task_id)
    watch = supervision.find(tx, task_id)
    return {
        "id": task_id,
        "goal": derived.goal,
        "truth_state": derived.truth_state,
        "current_step": derived.current_step,
        "progressed_at": derived.progressed_at.isoformat() if derived.progressed_at else None,
        "action": None if watch is None else decide(derived, watch, now).kind,
    }


def observed(one: Observation) -> dict[str, Any]:
    """An observation as JSON."""
    return {
        "id": one.id,
        "at": one.at.isoformat(),
        "kind": one.kind,
        "step": one.step,
        "source": one.source,
        "summary": one.summary,
        "data": dict(one.data),
        "key": one.key,
    }


def action(decided: Action) -> dict[str, Any]:
    """A decision of the monitor as JSON."""
    return dict(_plain(asdict(decided)))


def _plain(values: dict[str, Any]) -> Any:
    times = {name: value.isoformat() for name, value in values.items() if isinstance(value, datetime)}
    return wire_safe(values | times)
