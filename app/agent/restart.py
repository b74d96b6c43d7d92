"""A run whose memos this version cannot read ends, and its messages are answered by a new run from the transcript."""

import logging
from typing import Any

from app.agent.announce import announce
from app.agent.harness import Harness
from app.db import Tx
from app.sessions import deposit, session, turns

log = logging.getLogger("moab.agent")


async def start_again(harness: Harness, run_id: str) -> dict[str, Any]:
    """Give the session of a turn up and wake its messages. Done before, or no turn: nothing is sent."""
    woken = await harness.db.write(_give_up, harness, run_id)
    if woken is not None:
        log.warning("The memos of run %s are of another version; its messages are answered by a new run.", run_id)
        await announce(harness, [woken])
    return {"kind": "superseded"}


def _give_up(tx: Tx, harness: Harness, run_id: str) -> dict[str, Any] | None:
    turn = turns.find(tx, run_id)
    if turn is None or turns.holder(tx, turn.session_id) != run_id:
        return None
    session.release(tx, turn.session_id, harness.clock.now())
    return deposit.wake_next(tx, turn.session_id)
