"""Who watches over a tracked task: whom to ask, how long to wait, and what was done about it so far."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import delete, select, update

from app.db import Tx, insert_if_absent, moment
from app.errors import BadInput
from app.tables import supervision


class Executor(StrEnum):
    """Who does a task's work: the session itself, a sub-agent, a pipeline, or a command in the background.

    A pipeline looks after its own steps.
    """

    OWNER = "owner"
    SUB_AGENT = "sub_agent"
    PIPELINE = "pipeline"
    COMMAND = "command"


@dataclass(frozen=True)
class Limits:
    """How long a task may be idle, in seconds since its last progress, and how often things are tried.

    `heartbeat_s` counts from the last sign of life, `external_s` from the last look at what is pending outside.
    None of them limits how long a task may take.
    """

    heartbeat_s: int = 600
    stale_s: int = 1200
    nudge_s: int = 1800
    external_s: int = 6 * 3600
    retries: int = 3
    asks: int = 3

    def __post_init__(self) -> None:
        idle = (self.heartbeat_s, self.stale_s, self.nudge_s)
        if min(*idle, self.external_s) < 1 or min(self.retries, self.asks) < 0 or list(idle) != sorted(idle):
            raise BadInput("Limits: accepted are seconds of at least 1 with heartbeat_s <= stale_s <= nudge_s.")

    @property
    def heartbeat(self) -> timedelta:
        return timedelta(seconds=self.heartbeat_s)

    @property
    def stale(self) -> timedelta:
        return timedelta(seconds=self.stale_s)

    @property
    def nudge(self) -> timedelta:
        return timedelta(seconds=self.nudge_s)

    @property
    def external(self) -> timedelta:
        return timedelta(seconds=self.external_s)


LIMITS = {Executor.PIPELINE: Limits(heartbeat_s=86_400, stale_s=86_400, nudge_s=86_400)}
"""Of executors that have others than the usual: a goal may wait a day for its turn, and its steps have their own."""


@dataclass(frozen=True)
class Supervision:
    """The watch over one task. `owner_key` is the session key that is asked, None if there is nobody to ask.

    `retries` counts by step or job ("" for the whole task), `asks` the questions since the task last got on.
    """

    task_id: str
    owner_key: str | None
    executor: str
    created_at: datetime
    next_check_at: datetime
    limits: Limits = Limits()
    retries: Mapping[str, int] = field(default_factory=dict)
    retried_at: datetime | None = None
    asks: int = 0
    asked_at: datetime | None = None
    escalated_at: datetime | None = None

    @property
    def can_be_nudged(self) -> bool:
        """Whether there is somebody to turn to when the task does not get on."""
        return self.owner_key is not None or self.executor == Executor.PIPELINE


TIMES = ("created_at", "next_check_at", "retried_at", "asked_at", "escalated_at")


def begin(
    tx: Tx,
    task_id: str,
    *,
    owner_key: str | None,
    now: datetime,
    executor: str = Executor.OWNER,
    limits: Limits | None = None,
    is_new: bool = False,
) -> bool:
    """Watch over a task from now on; False if somebody does already. Without `limits` they are the executor's.

    One that `is_new` needs no look before it may be idle, unless something is observed of it.
    """
    limits = limits or LIMITS.get(Executor(executor), Limits())
    look_at = now + limits.heartbeat if is_new else now
    watch = Supervision(task_id, owner_key, executor, created_at=now, next_check_at=look_at, limits=limits)
    return insert_if_absent(tx, supervision, asdict(watch))


def find(tx: Tx, task_id: str) -> Supervision | None:
    row = tx.execute(select(supervision).where(supervision.c.task_id == task_id)).first()
    return None if row is None else _read(row)


def due(tx: Tx, now: datetime, limit: int = 200) -> Sequence[Supervision]:
    """Watches whose time has come, those that waited longest first."""
    query = select(supervision).where(supervision.c.next_check_at <= now)
    return [_read(row) for row in tx.execute(query.order_by(supervision.c.next_check_at).limit(limit))]


def of_owner(tx: Tx, owner_key: str) -> Sequence[Supervision]:
    """The watches over the tasks of a session key, oldest first."""
    query = select(supervision).where(supervision.c.owner_key == owner_key)
    return [_read(row) for row in tx.execute(query.order_by(supervision.c.created_at, supervision.c.task_id))]


def everything(tx: Tx, *executors: Executor) -> Sequence[Supervision]:
    """All watches, or those over what some executors do, oldest first."""
    query = select(supervision).order_by(supervision.c.created_at, supervision.c.task_id)
    if executors:
        query = query.where(supervision.c.executor.in_(executors))
    return [_read(row) for row in tx.execute(query)]


def change(tx: Tx, watch: Supervision, **values: Any) -> bool:
    """Note what was done, unless another beat was faster: the row must still be as it was read."""
    unchanged = (
        supervision.c.task_id == watch.task_id,
        supervision.c.asks == watch.asks,
        _same(supervision.c.asked_at, watch.asked_at),
        _same(supervision.c.retried_at, watch.retried_at),
        _same(supervision.c.escalated_at, watch.escalated_at),
    )
    return tx.execute(update(supervision).where(*unchanged).values(values)).rowcount > 0


def end(tx: Tx, task_id: str) -> bool:
    """Stop watching; the observations stay."""
    return tx.execute(delete(supervision).where(supervision.c.task_id == task_id)).rowcount > 0


def _same(column: Any, value: datetime | None) -> Any:
    return column.is_(None) if value is None else column == value


def _read(row: Any) -> Supervision:
    values: dict[str, Any] = {one.name: getattr(row, one.name) for one in fields(Supervision)}
    times = {name: moment(values[name]) for name in TIMES}
    return Supervision(**values | times | {"limits": Limits(**row.limits), "retries": dict(row.retries)})
