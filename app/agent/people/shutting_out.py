"""Somebody is shut out: nobody comes in any more, and what goes on for him by itself is ended."""

from typing import Any

from app.agent.announce import announce
from app.agent.delegation.answered import answer
from app.agent.delegation.task_list import cancel
from app.agent.harness import Harness
from app.db import Tx
from app.ids import new_id
from app.sessions import people, person_records, tasks
from app.work import supervision, wakes
from app.work.observation import Branch, Kind, Observation
from app.work.supervision import Executor

BY_ITSELF = (Executor.OWNER, Executor.PIPELINE)
"""Executors of what is given up by a word in the ledger; sub-agents are cancelled, and commands end by themselves."""


async def shut_out(harness: Harness, person_id: str) -> None:
    """Let a person or a chat in no more; his wakes, tasks and goals are cancelled. Safe to repeat."""
    events = await harness.db.write(_shut_out, harness, person_id)
    if events:
        await announce(harness, events)


def _shut_out(tx: Tx, harness: Harness, person_id: str) -> list[dict[str, Any]]:
    now = harness.clock.now()
    people.revoke(tx, person_id, now)
    events: list[dict[str, Any]] = []
    for key in person_records.holdings(tx, person_id).keys:
        for wake in wakes.open_of_key(tx, key):
            wakes.cancel(tx, wake.id, now)
        events += [cancel(tx, harness, key, row.id) for row in tasks.open_of_key(tx, key)]
        for watch in supervision.of_owner(tx, key):
            if watch.executor in BY_ITSELF:
                events += answer(tx, harness, _given_up(harness, watch.task_id))[1]
    return events


def _given_up(harness: Harness, task_id: str) -> Observation:
    told, data = "whom it was for is shut out", {"branch": Branch.GIVEN_UP}
    key = f"shut out:{new_id(harness.clock)}"
    return Observation(task_id, Kind.OWNER_REPLY_RECORDED, key, harness.clock.now(), "operator", None, told, data)
