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
    known = ledger.of_task(tx, seen.task_id)
    ends = seen.data.get("branch") in ENDS
    events = halt(tx, harness, seen.task_id) if ends else []
    derived = tracking.reply(tx, seen)
    if ends and tracking.executor_of(known) is Executor.SUB_AGENT:
        with contextlib.suppress(NotFound):  # it has come to its end meanwhile
            events.append(cancel(tx, harness, tracking.owner_of(known) or "", seen.task_id))
    return derived, events
