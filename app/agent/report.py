"""The last step of a sub-agent: its answer lands on the call that asked for it."""

from typing import Any

from app.agent.announce import announce
from app.agent.harness import Harness
from app.db import Tx
from app.events import MessageReceived, SubagentSpawn, message_event_id
from app.ids import new_id
from app.sessions import calls, deposit, session, transcript, turns
from app.sessions.calls import CallState

NO_ANSWER = "The task came to no answer."


async def report(harness: Harness, spawn: SubagentSpawn, text: str, ok: bool) -> dict[str, Any]:
    """Write the answer on the parent's call row; `{"text": …, "ok": …}` for the parent's own memo.

    A parent whose turn is over by then gets it as a deposit, so that the person hears of it.
    """
    answer, late = await harness.db.write(_answer, harness, spawn, text, ok)
    if late is not None:
        await announce(harness, [late])
    return {"text": answer, "ok": ok}


def _answer(tx: Tx, harness: Harness, spawn: SubagentSpawn, text: str, ok: bool) -> tuple[str, dict[str, Any] | None]:
    answer = text or _last_words(tx, spawn) or NO_ANSWER
    return answer, _record(tx, harness, spawn, answer, ok)


def _last_words(tx: Tx, spawn: SubagentSpawn) -> str:
    session_id = session.find(tx, spawn.sub_session_key)
    words = transcript.recent(tx, session_id, 1) if session_id else []
    return words[-1][1] if words and words[-1][0] == "assistant" else ""


def _record(tx: Tx, harness: Harness, spawn: SubagentSpawn, answer: str, ok: bool) -> dict[str, Any] | None:
    now = harness.clock.now()
    if spawn.parent_run_id is None or spawn.parent_step_key is None:
        return None
    call = calls.find(tx, spawn.parent_run_id, spawn.parent_step_key)
    if call is None or call.state != CallState.STARTED:  # nobody waits for it any more
        return None
    calls.finish(tx, call.id, ok=ok, result=answer, now=now)
    turns.seen(tx, spawn.parent_run_id, now)  # its own next step may take a moment, and nobody may take it over
    parent = turns.find(tx, spawn.parent_run_id)
    if parent is None or parent.state not in ("superseded", "failed"):
        return None
    return _deposit_late(tx, harness, spawn, call.session_id)


def _deposit_late(tx: Tx, harness: Harness, spawn: SubagentSpawn, session_id: str) -> dict[str, Any] | None:
    place = deposit.last_place(tx, session_id)
    if place is None:
        return None
    event = MessageReceived(
        message=f"The task you had delegated ({spawn.task_id}) has come to its end; its result is on the call.",
        message_key=f"{spawn.task_id}:late",
        session_key=spawn.parent_session_key,
        channel=place.channel,
        destination=place.destination,
        origin="a sub-agent",
        steers=False,
    )
    deposit.deposit(tx, event, f"{spawn.task_id}:late", new_session_id=new_id(harness.clock), now=harness.clock.now())
    return event.to_wire(message_event_id(f"{spawn.task_id}:late"))
