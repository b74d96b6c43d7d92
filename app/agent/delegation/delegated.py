"""What becomes of a delegated task, written into the ledger: it began, it got on, it ended, it was given up."""

from typing import Any

from app.agent.harness import Harness
from app.db import Tx
from app.sessions import tasks
from app.sessions.tasks import TaskState
from app.work import ledger, tracking
from app.work.observation import Branch, Kind, Observation
from app.work.projection import Derived, Truth
from app.work.supervision import Executor

ENDS = {Truth.COMPLETED: TaskState.DONE, Truth.ABANDONED: TaskState.CANCELLED, Truth.FAILED: TaskState.FAILED}
PREFIX = "task:"
EXECUTOR = "executor"
SHOWN_CHARS = 2000


def is_delegated(session_key: str) -> bool:
    """Whether a session is that of a sub-agent at a task."""
    return session_key.startswith(PREFIX)


def task_of(sub_session_key: str) -> str:
    """The id under which the ledger knows the task of a sub-agent's session."""
    return sub_session_key.removeprefix(PREFIX)


def began(tx: Tx, harness: Harness, sub_session_key: str, owner: str, task: str, *, watched: bool) -> None:
    """Note that a sub-agent is at its task, once. One that a turn waits for needs no watch: the turn would be told."""
    data = {"goal": task.strip()[:SHOWN_CHARS] or "(a task without words)", "owner": owner}
    opening = _seen(harness, sub_session_key, Kind.STARTED, "started", **data)
    tracking.start(tx, opening, executor=Executor.SUB_AGENT, watched=watched)


def got_on(tx: Tx, harness: Harness, sub_session_key: str, run_id: str, step_key: str) -> None:
    """Note that a tool of the sub-agent did what it was to do."""
    if ledger.exists(tx, task_of(sub_session_key)):
        ledger.append(tx, _seen(harness, sub_session_key, Kind.HEARTBEAT, f"{run_id}:{step_key}", success=True))


def ended(tx: Tx, harness: Harness, sub_session_key: str, answer: str, ok: bool) -> None:
    """Note the task's end, once; one that was given up before has ended already."""
    if ok:
        end = _seen(harness, sub_session_key, Kind.TASK_COMPLETED, "ended", answer)
    else:
        end = _seen(
            harness, sub_session_key, Kind.BLOCKED_CONFIRMED, "ended", answer, reason="EXECUTION_ERROR", final=True
        )  # fmt: skip
    _also(tx, end)


def given_up(tx: Tx, harness: Harness, sub_session_key: str) -> None:
    """Note that the task was cancelled or stopped by somebody who may."""
    _also(tx, _seen(harness, sub_session_key, Kind.OWNER_REPLY_RECORDED, "given up", branch=Branch.GIVEN_UP))


def withdrawn(tx: Tx, harness: Harness, task_id: str, task: str) -> None:
    """Note that an order was taken back, if nobody has begun with it."""
    if not ledger.exists(tx, task_id):
        told = f"It was cancelled before it began: {task}"
        ledger.append(
            tx, _seen(harness, PREFIX + task_id, Kind.OWNER_REPLY_RECORDED, "given up", told, branch=Branch.GIVEN_UP)
        )


def state_of(derived: Derived) -> TaskState:
    """What the row of an order says, by what was observed of it."""
    if not derived.task_id:
        return TaskState.WAITING
    return ENDS.get(derived.truth_state, TaskState.RUNNING)


def follow(tx: Tx, harness: Harness, task_id: str) -> bool:
    """Let the row of an order say what the ledger says; whether that was news."""
    return tasks.move(tx, task_id, state_of(ledger.derived(tx, task_id)), harness.clock.now())


def _also(tx: Tx, seen: Observation) -> None:
    """Add to a task that has begun and not come to its end."""
    derived = ledger.derived(tx, seen.task_id)
    if derived.task_id and not derived.is_terminal:
        ledger.append(tx, seen)


def _seen(harness: Harness, sub_session_key: str, kind: Kind, key: str, summary: str = "", **data: Any) -> Observation:
    return Observation(
        task_id=task_of(sub_session_key),
        kind=kind,
        key=key,
        at=harness.clock.now(),
        source=EXECUTOR,
        summary=summary[:SHOWN_CHARS],
        data=data,
    )
