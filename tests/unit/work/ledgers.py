"""Observations for tests: written as short as they are said."""

from datetime import UTC, datetime, timedelta
from typing import Any

from app.work.observation import Kind, Observation
from app.work.projection import Derived, project
from app.work.supervision import Supervision

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
TASK = "ships"


def minutes(number: float) -> datetime:
    return START + timedelta(minutes=number)


class Line:
    """A ledger in memory: `see` adds what was observed at a minute."""

    def __init__(self, *steps: str, goal: str = "count the ships") -> None:
        self.seen: list[Observation] = []
        self.see(0, Kind.STARTED, goal=goal, steps=list(steps))

    def see(self, minute: float, kind: Kind, step: str | None = None, source: str = "owner", **data: Any) -> "Line":
        number = len(self.seen) + 1
        one = Observation(TASK, kind, f"k{number}", minutes(minute), source, step, data=data, id=number)
        self.seen.append(one.checked())
        return self

    @property
    def derived(self) -> Derived:
        return project(self.seen)


def watch(owner_key: str | None = "test:chat", **changes: Any) -> Supervision:
    """The watch over the task, as it is after its start."""
    fields: dict[str, Any] = {"created_at": START, "next_check_at": START, "executor": "owner"}
    return Supervision(task_id=TASK, owner_key=owner_key, **fields | changes)
