"""What is open in a session, from records: pinned to every thought, so that no summary can make the model forget it."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select

from app.db import Tx
from app.open_rows import APPROVAL_PENDING, CALL_STARTED
from app.sessions.approvals import OUTSIDE
from app.tables import approvals, calls, sessions, supervision, tasks
from app.work import ledger
from app.work.projection import Derived

MAX_LINES = 12
MAX_CHARS = 1_200
TEXT_CHARS = 120

WHOM = {OUTSIDE: "a result from outside"}
NOTE = "Open work in this conversation, from the records (true now, whatever was said before):\n{lines}"

CHILDREN = (
    select(calls.c.child_key, calls.c.arguments)
    .where(calls.c.session_id == bindparam("session"), CALL_STARTED)
    .where(calls.c.child_key.is_not(None))
    .order_by(calls.c.id)
)
TASKS = (
    select(tasks.c.id, tasks.c.state, tasks.c.task, tasks.c.due_at)
    .where(tasks.c.session_id == bindparam("session"), tasks.c.ended_at.is_(None))
    .order_by(tasks.c.id)
)
ASKED = select(approvals.c.kind, approvals.c.tool, approvals.c.id).where(
    approvals.c.session_id == bindparam("session"), APPROVAL_PENDING
)

TRACKED = (
    select(supervision.c.task_id)
    .join(sessions, sessions.c.key == supervision.c.owner_key)
    .where(sessions.c.id == bindparam("session"), supervision.c.executor.in_(("owner", "command")))
    .order_by(supervision.c.created_at)
    .limit(MAX_LINES)
)


def open_work(tx: Tx, session_id: str) -> dict[str, str]:
    """By its id, a line for each sub-agent that works, task that waits, runs or is tracked, and request to a person."""
    children = tx.execute(CHILDREN, {"session": session_id}).all()
    lines = {
        child.child_key: f"- sub-agent {child.child_key} is running: {_short(child.arguments)}" for child in children
    }
    for row in tx.execute(TASKS, {"session": session_id}):
        due = f", due {row.due_at:%Y-%m-%d %H:%M} UTC" if row.due_at else ""
        lines.setdefault(row.id, f"- task {row.id} is {row.state}{due}: {_short(row.task)}")
    for task_id in tx.scalars(TRACKED, {"session": session_id}).all():
        lines.setdefault(task_id, _tracked(ledger.derived(tx, task_id)))
    asked = tx.execute(ASKED, {"session": session_id})
    return lines | {
        row.id: f"- {row.kind} {row.id} ({row.tool}) waits for {WHOM.get(row.kind, 'a person')}" for row in asked
    }


def _tracked(derived: Derived) -> str:
    step = f", step {derived.current_step}" if derived.current_step else ""
    return f"- tracked task {derived.task_id} is {derived.truth_state}{step}: {_short(derived.goal)}"


def state_note(lines: Sequence[str], standing: str = "") -> str | None:
    """The one block that is pinned, at most MAX_CHARS: what the turn began with knowing, then what is open here, of
    which as much is shown as fits. None where there is nothing to tell.
    """
    for shown in range(min(len(lines), MAX_LINES), -1, -1):
        more = [f"- and {len(lines) - shown} more"] if len(lines) > shown else []
        work = NOTE.format(lines="\n".join([*lines[:shown], *more])) if lines else ""
        text = "\n".join(part for part in (standing, work) if part)
        if len(text) <= MAX_CHARS:
            break
    return text or None


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= TEXT_CHARS else text[: TEXT_CHARS - 1] + "…"
