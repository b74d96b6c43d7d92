"""The first step of a turn: store what came, take the session, and fix the conditions of the turn."""

from typing import Any

from app.agent.flow import Flow, Stop
from app.agent.harness import Harness
from app.db import Tx
from app.events import MessageReceived
from app.failpoints import reach
from app.ids import new_id
from app.sessions import calls, session, turns
from app.sessions.deposit import attach_open, deposit, open_inputs
from app.sessions.session import Claim


async def receive(
    harness: Harness, run_id: str, event: MessageReceived, message_key: str, delegates: bool = True
) -> dict[str, Any]:
    """A Flow as JSON: the turn's conditions, or why this run is no turn. Safe to repeat."""
    session_id, stop = await harness.db.write(_begin, harness, run_id, event, message_key, delegates)
    harness.notifier.publish(event.session_key)
    reach("receive.committed")
    settings = harness.settings
    flow = Flow(
        run_id=run_id,
        session_key=event.session_key,
        session_id=session_id,
        channel=event.channel,
        stop=stop,
        model=settings.model,
        fallback=settings.fallback_agent_model,
        compact=settings.is_local_model,
        delegates=delegates,
        max_iterations=settings.agent_max_iterations,
        code_version=harness.code_version,
    )
    return flow.wire()


def _begin(
    tx: Tx, harness: Harness, run_id: str, event: MessageReceived, message_key: str, delegates: bool
) -> tuple[str, Stop | None]:
    """The session and, if the turn is not to be, why."""
    now = harness.clock.now()
    if not delegates and session.find(tx, event.session_key) is None and calls.is_called_off(tx, message_key):
        return "", "superseded"
    stored = deposit(tx, event, message_key, new_session_id=new_id(harness.clock), now=now)
    stop = _take(tx, harness, run_id, event, stored.session_id)
    if stop is None:
        calls.call_off_unborn(tx, stored.session_id, run_id)
        attach_open(tx, stored.session_id)
        turns.start(
            tx,
            run_id,
            stored.session_id,
            message_key=message_key,
            origin=event.origin,
            model=harness.settings.model,
            boot_id=harness.boot_id,
            now=now,
        )
    return stored.session_id, stop


def _take(tx: Tx, harness: Harness, run_id: str, event: MessageReceived, session_id: str) -> Stop | None:
    """Claim the session if there is anything to answer; a run without work must not take it from one that has."""
    turn = turns.find(tx, run_id)
    if turn is None and not open_inputs(tx, session_id):
        return "nothing"
    claim = session.claim(tx, session_id, run_id, boot_id=harness.boot_id, now=harness.clock.now(), steers=event.steers)
    match claim:
        case Claim.HELD:
            return None
        case Claim.BUSY:
            return "busy"
        case Claim.STALE:
            return None  # the next think step sees it again and makes the offer
        case Claim.STOPPED:
            return "stopped"
        case _:
            return "superseded"
