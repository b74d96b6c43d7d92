"""Tasks that run beside the conversation: what was ordered, a row each.

`state` and `ended_at` are the index of what is open: they follow what the ledger says of the task, by compare-and-set
in the transaction that writes it. What a task came to is in the ledger and nowhere else.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, func, or_, select, update

from app.db import Tx, insert_if_absent
from app.events import wire_safe
from app.open_rows import TASK_WAITING
from app.tables import sessions, tasks

LOST_AFTER = timedelta(seconds=60)
"""A task that should have begun this long ago is started once more."""


class TaskState(StrEnum):
    """A task waits, runs and ends in one of three ways."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (TaskState.WAITING, TaskState.RUNNING)


def add(
    tx: Tx,
    task_id: str,
    *,
    session_id: str,
    run_id: str,
    step_key: str,
    mode: str,
    task: str,
    model: str | None,
    due_at: datetime | None,
    now: datetime,
) -> None:
    """Write a task down, once for its run and step."""
    row = {
        "id": task_id,
        "session_id": session_id,
        "run_id": run_id,
        "step_key": step_key,
        "mode": mode,
        "task": wire_safe(task),
        "model": model,
        "state": TaskState.WAITING,
        "due_at": due_at,
        "created_at": now,
    }
    insert_if_absent(tx, tasks, row)


def find(tx: Tx, task_id: str) -> Any | None:
    """The row of a task with the key of its session as `session_key`, or None."""
    return tx.execute(_with_key().where(tasks.c.id == task_id)).first()


def of_step(tx: Tx, run_id: str, step_key: str) -> Any | None:
    """The task that this call made, or None."""
    return tx.execute(_with_key().where(tasks.c.run_id == run_id, tasks.c.step_key == step_key)).first()


def _with_key() -> Any:
    return select(tasks, sessions.c.key.label("session_key")).join(sessions, sessions.c.id == tasks.c.session_id)


def move(tx: Tx, task_id: str, new: str, now: datetime) -> bool:
    """Let an open task have the state `new`; False if it had that already or has ended, and then nothing is changed."""
    values: dict[str, Any] = {"state": new} | ({"ended_at": now} if new not in OPEN else {})
    still = tasks.c.id == task_id, tasks.c.state.in_([state for state in OPEN if state != new])
    return bool(tx.execute(update(tasks).where(*still).values(values)).rowcount)


def open_of_key(tx: Tx, session_key: str) -> Sequence[Any]:
    """Rows of tasks that wait or run, of all sessions of a key, the oldest first."""
    query = _with_key().where(sessions.c.key == session_key, tasks.c.state.in_(OPEN))
    rows: Sequence[Any] = tx.execute(query.order_by(tasks.c.created_at, tasks.c.id)).all()
    return rows


def count_open(tx: Tx, session_key: str) -> int:
    query = select(func.count()).select_from(tasks.join(sessions, sessions.c.id == tasks.c.session_id))
    return tx.scalar(query.where(sessions.c.key == session_key, tasks.c.state.in_(OPEN))) or 0


def overdue(tx: Tx, session_key: str | None, now: datetime) -> Sequence[Any]:
    """Rows of tasks that should have begun a minute ago: the signal, or who slept until then, was lost."""
    late = now - LOST_AFTER
    due = or_(
        and_(tasks.c.due_at.is_(None), tasks.c.created_at <= late), and_(tasks.c.due_at <= late)
    )  # fmt: skip
    query = _with_key().where(TASK_WAITING, due).limit(200)
    if session_key is not None:
        query = query.where(sessions.c.key == session_key)
    rows: Sequence[Any] = tx.execute(query).all()
    return rows
