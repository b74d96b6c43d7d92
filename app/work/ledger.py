"""The ledger of tracked tasks: observations are added and read, never changed or deleted."""

from collections.abc import Iterable, Sequence

from sqlalchemy import func, select, update

from app.db import Tx, insert_if_absent, moment
from app.events import safe_text, wire_safe
from app.tables import observations, supervision
from app.work.observation import Kind, Observation
from app.work.projection import Derived, project

_COLUMNS = [observations.c[name] for name in ("id", "kind", "key", "at", "source", "step", "summary", "data")]


def append(tx: Tx, observation: Observation) -> bool:
    """Write down what was seen; False when the task has one of this key already, and then nothing is changed.

    Whoever watches over the task looks at it on the next beat. Raises BadInput if the kind lacks what it needs.
    """
    seen = observation.checked()
    row = {
        "task_id": safe_text(seen.task_id),
        "key": safe_text(seen.key),
        "kind": seen.kind,
        "step": None if seen.step is None else safe_text(seen.step),
        "source": safe_text(seen.source),
        "summary": safe_text(seen.summary),
        "data": wire_safe(seen.data),
        "at": seen.at,
    }
    if not insert_if_absent(tx, observations, row):
        return False
    watched = update(supervision).where(supervision.c.task_id == seen.task_id, supervision.c.next_check_at > seen.at)
    tx.execute(watched.values(next_check_at=seen.at))
    return True


def append_all(tx: Tx, seen: Iterable[Observation]) -> int:
    """`append` for each; how many were new."""
    return sum(append(tx, one) for one in seen)


def of_task(tx: Tx, task_id: str) -> list[Observation]:
    """Everything that was observed of a task, oldest first; empty if there is no such task."""
    query = select(*_COLUMNS).where(observations.c.task_id == task_id).order_by(observations.c.id)
    return [
        Observation(task_id, Kind(kind), key, moment(at) or at, source, step, summary, data, number)
        for number, kind, key, at, source, step, summary, data in tx.execute(query)
    ]


def exists(tx: Tx, task_id: str) -> bool:
    query = select(observations.c.id).where(observations.c.task_id == task_id).limit(1)
    return tx.scalar(query) is not None


def derived(tx: Tx, task_id: str) -> Derived:
    """How a task stands by its observations."""
    return project(of_task(tx, task_id))


def recent(tx: Tx, limit: int) -> Sequence[str]:
    """Ids of the tasks that were observed last, the newest first."""
    newest = func.max(observations.c.id)
    query = select(observations.c.task_id).group_by(observations.c.task_id).order_by(newest.desc()).limit(limit)
    return tx.scalars(query).all()
