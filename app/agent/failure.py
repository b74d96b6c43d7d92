"""A run that failed for good: its messages are closed and the person is told once, in plain words."""

import logging
from collections.abc import Mapping
from typing import Any

from app.agent.announce import announce, reply_event
from app.agent.harness import Harness
from app.channels import outbox
from app.db import Tx
from app.events import Destination
from app.sessions import calls, deposit, session, turns

log = logging.getLogger("moab.agent")

SORRY = "Something went wrong and I could not finish this. The message is kept; please try again. (run {run_id})"

TASK_FAILED = "The task failed inside the service and came to no answer."


async def tell_failure(harness: Harness, failed: Mapping[str, Any]) -> dict[str, Any]:
    """Close a failed turn. `failed` is the data of `inngest/function.failed`; superseded turns say nothing."""
    run_id = str(failed.get("run_id", ""))
    error = failed.get("error") or {}
    log.error("The run %s of %s failed: %s", run_id, failed.get("function_id"), error.get("message"))
    row = await harness.db.write(_close, harness, run_id, str(error.get("message", ""))[:500])
    if row is None:
        return {"told": False}
    await announce(harness, [reply_event(harness, row, row.session_key)])
    harness.notifier.publish(row.session_key)
    return {"told": True}


def _close(tx: Tx, harness: Harness, run_id: str, error: str) -> Any | None:
    now = harness.clock.now()
    turn = turns.find(tx, run_id)
    if turn is None or turn.state != "live" or turns.holder(tx, turn.session_id) != run_id:
        return None
    place = deposit.place_of(tx, turn.session_id, run_id)
    deposit.close_shown(tx, turn.session_id, run_id, "failed")
    turns.end(tx, run_id, "failed", now, error=error)
    turns.settle(tx, run_id, now)
    if (call := calls.of_child(tx, session.key_of(tx, turn.session_id))) is not None:
        calls.finish(tx, call.id, ok=False, result=TASK_FAILED, now=now)
    if place is None or place.channel not in harness.channels:
        return None
    text = SORRY.format(run_id=run_id)
    outbox.put(
        tx,
        f"{run_id}/failure",
        session_id=turn.session_id,
        run_id=run_id,
        kind="notice",
        channel=place.channel,
        destination=Destination.model_validate(place.destination),
        parts=harness.channels[place.channel].parts(text),
        text=text,
        now=now,
    )
    unsent = [row for row in outbox.unsent_chats(tx) if row.run_id == run_id]
    return unsent[0] if unsent else None
