"""A run that failed for good: its messages are closed and the person is told once, in plain words."""

import logging
from collections.abc import Mapping
from typing import Any

from app.agent.announce import announce
from app.agent.conclude import concluded
from app.agent.delegation.report import fail_task
from app.agent.goals.end import fail_try
from app.agent.harness import Harness
from app.agent.heartbeat.telling import is_kept, tell
from app.agent.people.failed_command import tell_failed_command
from app.agent.people.preview import give_up
from app.channels import outbox
from app.db import Tx
from app.sentences import FAILED, MAY_BE_DONE, NOTHING_DONE, TRY_AGAIN, WAS_DONE, Sentence, counted, say
from app.sessions import calls, deposit, session, turns
from app.sessions.calls import CallState
from app.sessions.turns import Outcome

log = logging.getLogger("moab.agent")

STEP_FAILED = Sentence("it failed inside the service")

TASK_FAILED = "The task failed inside the service and came to no answer."


async def tell_failure(harness: Harness, failed: Mapping[str, Any]) -> dict[str, Any]:
    """Close a failed turn. `failed` is the data of `inngest/function.failed`; superseded turns say nothing."""
    run_id = str(failed.get("run_id", ""))
    error = failed.get("error") or {}
    log.error("The run %s of %s failed: %s", run_id, failed.get("function_id"), error.get("message"))
    if await tell_failed_command(harness, failed):
        return {"told": True}
    found = await harness.db.write(_close, harness, run_id, str(error.get("message", ""))[:500])
    ended = await harness.db.write(fail_task, harness, run_id, _task_of(failed), TASK_FAILED)
    next_tries = await harness.db.write(fail_try, harness, run_id, _task_of(failed), STEP_FAILED)
    if ended is not None or next_tries:
        await announce(harness, [*([ended] if ended is not None else []), *next_tries])
    if found is None:
        return {"told": False}
    events, session_key = found
    if events:
        await announce(harness, events)
    harness.notifier.publish(session_key)
    return {"told": True} | await concluded(harness, run_id)


def _task_of(failed: Mapping[str, Any]) -> str:
    """The task that the failed run was at; empty if it was at none."""
    event = failed.get("event") or {}
    return str((event.get("data") or {}).get("taskId") or "")


def _close(tx: Tx, harness: Harness, run_id: str, error: str) -> tuple[list[dict[str, Any]], str] | None:
    """The events that tell the person, and in which session; also when the notice was written by an earlier attempt."""
    turn = turns.find(tx, run_id)
    if turn is None:
        return None
    if turn.state == "live" and turns.holder(tx, turn.session_id) == run_id:
        _fail(tx, harness, turn, error)
    elif not outbox.exists(tx, f"{run_id}/failure") and not is_kept(tx, f"{run_id}/failure"):
        return None
    place = deposit.place_of(tx, turn.session_id, run_id)
    if place is None or place.channel not in harness.channels:
        return None
    return _put_notice(tx, harness, turn, place), session.key_of(tx, turn.session_id)


def _fail(tx: Tx, harness: Harness, turn: Any, error: str) -> None:
    now = harness.clock.now()
    deposit.close_shown(tx, turn.session_id, turn.run_id, "failed")
    turns.end(tx, turn.run_id, "failed", now, error=error)
    turns.settle(tx, turn.run_id, now)
    turns.note_outcome(tx, turn.run_id, Outcome.DONE, f"It failed inside the service: {error}")
    if (call := calls.of_child(tx, session.key_of(tx, turn.session_id))) is not None:
        calls.finish(tx, call.id, ok=False, result=TASK_FAILED, now=now)


def what_failed(tx: Tx, turn: Any) -> str:
    """What failed, whether anything was done, and what to do now; plain words, no stack and no secret."""
    language = outbox.language_of(tx, turn.session_id)
    of_run = calls.of_run(tx, turn.run_id)
    done = counted((name for name, state in of_run if state == CallState.FINISHED), language)
    open_ones = (name for name, state in of_run if state in (CallState.STARTED, CallState.INTERRUPTED))
    unsure = counted(open_ones, language)
    said = [say(FAILED, language, run_id=turn.run_id)]
    if done:
        said.append(say(WAS_DONE, language, done=done))
    if unsure:
        said.append(say(MAY_BE_DONE, language, unsure=unsure))
    if not done and not unsure:
        said.append(say(NOTHING_DONE, language))
    return " ".join([*said, say(TRY_AGAIN, language)])


def _put_notice(tx: Tx, harness: Harness, turn: Any, place: Any) -> list[dict[str, Any]]:
    """What a person has asked for and does not get is told at any hour."""
    give_up(tx, harness, turn.session_id)
    text = what_failed(tx, turn)
    key = f"{turn.run_id}/failure"
    is_asked = turn.origin == "person"
    return tell(tx, harness, key, turn.session_id, place, text, critical=is_asked, run_id=turn.run_id)
