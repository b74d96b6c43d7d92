"""The owner's answer to a question about a task, and the end of whatever works on what it ends."""

import contextlib
from typing import Any

from app.agent.delegation.task_list import cancel
from app.agent.goals.orders import halt
from app.agent.harness import Harness
from app.db import Tx
from app.errors import NotFound
from app.work import ledger, tracking
from app.work.observation import Branch, Observation
from app.work.projection import Derived
from app.work.supervision import Executor

ENDS = (Branch.DONE, Branch.GIVEN_UP)


def answer(tx: Tx, harness: Harness, seen: Observation) -> tuple[Derived, list[dict[str, Any]]]:
    """Record an OWNER_REPLY_RECORDED: how the task stands then, and the events that end the runs of a goal that has
    ended by it, or a sub-agent's. Raises as `tracking.reply` does.
    """
    events = halt(tx, harness, seen.task_id) if seen.data.get("branch") in ENDS else []
    derived = tracking.reply(tx, seen)
    return derived, [*events, *_ended(tx, harness, derived)]


def observed(tx: Tx, harness: Harness, seen: Observation) -> list[dict[str, Any]]:
    """Record what somebody else saw of a task; the events that end the run of a sub-agent at what has ended by it.

    Raises as `tracking.record` does.
    """
    return _ended(tx, harness, tracking.record(tx, seen))


def _ended(tx: Tx, harness: Harness, derived: Derived) -> list[dict[str, Any]]:
    known = ledger.of_task(tx, derived.task_id)
    if not derived.is_terminal or tracking.executor_of(known) is not Executor.SUB_AGENT:
        return []
    with contextlib.suppress(NotFound):  # it has come to its end meanwhile
        return [cancel(tx, harness, tracking.owner_of(known) or "", derived.task_id)]
    return []
