"""Open tasks as people and models see them: listed with their ids, and cancelled by them."""

from dataclasses import dataclass
from typing import Any

from app.agent.announce import announce
from app.agent.delegation.delegated import follow, given_up, withdrawn
from app.agent.harness import Harness
from app.db import Tx, moment
from app.errors import NotFound
from app.events import TaskCancelled
from app.ids import new_id
from app.sentences import say
from app.sessions import calls, session, tasks
from app.sessions.tasks import OPEN, TaskState
from app.work import ledger, supervision
from app.work.supervision import Executor

SHOWN_CHARS = 80
CANCELLED = "Cancelled before the task came to an end."


def cancel(tx: Tx, harness: Harness, session_key: str, task_id: str) -> dict[str, Any]:
    """End a task of this key, or a sub-agent that a turn waits for; the event that ends its run. Raises NotFound."""
    now = harness.clock.now()
    row = tasks.find(tx, task_id)
    if row is not None and row.session_key == session_key:
        if row.state not in OPEN:
            raise NotFound(f"The task {task_id} has ended already ({row.state}).")
        withdrawn(tx, harness, task_id, row.task)
        stop_session(tx, harness, f"task:{task_id}")
        follow(tx, harness, task_id)
        return cancelled_event(harness, task_id, session_key)
    session_id = session.find(tx, session_key)
    for child in calls.running_children(tx, session_id) if session_id else ():
        if child.child_key == task_id:
            calls.finish(tx, child.id, ok=False, result=CANCELLED, now=now)
            stop_session(tx, harness, task_id)
            return cancelled_event(harness, task_id, session_key)
    raise NotFound(f"There is no open task {task_id}.")


def stop_session(tx: Tx, harness: Harness, sub_session_key: str) -> None:
    """Take a sub-agent's session away from its run: it ends at its next step, and a running tool within a second."""
    given_up(tx, harness, sub_session_key)
    if sub_session := session.find(tx, sub_session_key):
        session.stop(tx, sub_session, harness.clock.now())


def cancelled_event(harness: Harness, task_id: str, session_key: str) -> dict[str, Any]:
    """`agent.task.cancelled` under a fresh id."""
    return TaskCancelled(task_id=task_id, session_key=session_key).to_wire(
        f"{task_id}:cancelled:{new_id(harness.clock)}"
    )


def describe(tx: Tx, harness: Harness, session_key: str, language: str = "") -> list[str]:
    """A line for every open task of a key: its id, what it waits for or since when it runs, and its words."""
    lines = []
    for row in tasks.open_of_key(tx, session_key):
        due = moment(row.due_at)
        values = {"id": row.id, "task": _short(row.task)}
        if row.state == TaskState.RUNNING:
            lines.append(say("{id} is running: {task}", language, **values))
        elif due:
            at = f"{harness.daily_log.local(due):%Y-%m-%d %H:%M}"
            lines.append(say("{id} begins at {at}: {task}", language, at=at, **values))
        else:
            lines.append(say("{id} is about to begin: {task}", language, **values))
    session_id = session.find(tx, session_key)
    for child in calls.running_children(tx, session_id) if session_id else ():
        values = {"id": child.child_key, "task": _short(child.arguments)}
        lines.append(say("{id} is running, a turn waits for it: {task}", language, **values))
    return lines


def describe_watched(tx: Tx, session_key: str, language: str = "") -> list[str]:
    """A line for every tracked task of a key that is no sub-agent's: commands in the background, goals, a person's."""
    others = [one for one in supervision.of_owner(tx, session_key) if one.executor != Executor.SUB_AGENT]
    return [
        say("{id} is looked after: {task}", language, id=one.task_id, task=_short(ledger.derived(tx, one.task_id).goal))
        for one in others
    ]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN_CHARS else flat[: SHOWN_CHARS - 1] + "…"


@dataclass(frozen=True)
class OpenTasks:
    """The open tasks of one conversation's key. Implements `Tasks` of the tool contract."""

    harness: Harness
    session_key: str

    async def listed(self) -> list[str]:
        return await self.harness.db.read(describe, self.harness, self.session_key)

    async def cancel(self, task_id: str) -> None:
        event = await self.harness.db.write(cancel, self.harness, self.session_key, task_id)
        await announce(self.harness, [event])
