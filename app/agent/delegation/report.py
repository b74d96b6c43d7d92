"""The last step of a sub-agent: its answer lands on the call that asked for it."""

from typing import Any

from sqlalchemy import select

from app.agent.announce import announce, machine_input
from app.agent.delegation.delegated import began, ended, follow
from app.agent.harness import Harness
from app.agent.heartbeat.telling import tell
from app.channels import outbox
from app.db import Tx
from app.events import SubagentSpawn, message_event_id
from app.sentences import Sentence, say
from app.sessions import calls, deposit, session, tasks, transcript, turns
from app.sessions.calls import CallState
from app.sessions.tasks import OPEN
from app.tables import sessions

NO_ANSWER = "The task came to no answer."
ENDED = """The {mode} task {id} has {how}.
Task: {task}
Result:
{result}"""
TOLD_ENDED = Sentence("The task {id} has ended.\nTask: {task}\nResult:\n{result}")
TOLD_FAILED = Sentence("The task {id} has failed.\nTask: {task}\nResult:\n{result}")


async def report(harness: Harness, spawn: SubagentSpawn, text: str, ok: bool) -> dict[str, Any]:
    """Write the answer on the parent's call row; `{"text": …, "ok": …}` for the parent's own memo.

    A parent whose turn is over by then gets it as a deposit, so that the person hears of it; so does the conversation
    of a task that nobody waited for, once, unless the task was cancelled.
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
    if spawn.mode == "wait":
        ended(tx, harness, spawn.sub_session_key, answer, ok)
    else:
        return end_task(tx, harness, spawn.task_id, answer, ok)
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
    key = f"{spawn.task_id}:late"
    text = f"The task you had delegated ({spawn.task_id}) has come to its end; its result is on the call."
    event = machine_input(tx, harness, key, spawn.parent_session_key, place, text, "a sub-agent")
    return event.to_wire(message_event_id(key))


def end_task(tx: Tx, harness: Harness, task_id: str, answer: str, ok: bool) -> dict[str, Any] | None:
    """Note how a task ended and tell its conversation, once; the event that says so. Cancelled ones tell nobody.

    A conversation that `/new` has closed meanwhile gets no new input: the person is told directly.
    """
    row = tasks.find(tx, task_id)
    if row is None or row.state not in OPEN:
        return None
    began(tx, harness, f"task:{row.id}", row.session_key, row.task, watched=True)
    ended(tx, harness, f"task:{row.id}", answer, ok)
    if not follow(tx, harness, row.id):
        return None
    place = deposit.last_place(tx, row.session_id)
    if place is None:
        return None
    task = row.task[:500]
    if tx.scalar(select(sessions.c.closed_at).where(sessions.c.id == row.session_id)) is None:
        text = ENDED.format(mode=row.mode, id=row.id, how="ended" if ok else "failed", task=task, result=answer)
        return _deposit_end(tx, harness, row, place, text)
    language = outbox.language_of(tx, row.session_id)
    said = say(TOLD_ENDED if ok else TOLD_FAILED, language, id=row.id, task=task, result=answer)
    return next(iter(tell(tx, harness, f"{row.id}/ended", row.session_id, place, said)), None)


def _deposit_end(tx: Tx, harness: Harness, row: Any, place: Any, text: str) -> dict[str, Any]:
    key = f"{row.id}:ended"
    event = machine_input(tx, harness, key, row.session_key, place, text, f"a {row.mode} task")
    return event.to_wire(message_event_id(key))


def fail_task(tx: Tx, harness: Harness, run_id: str, task_id: str, reason: str) -> dict[str, Any] | None:
    """`end_task` for a run that failed for good, unless another run is at the task."""
    sub_session = session.find(tx, f"task:{task_id}") if task_id else None
    turn = turns.newest(tx, sub_session) if sub_session else None
    if not task_id or (turn is not None and turn.run_id != run_id):
        return None
    return end_task(tx, harness, task_id, reason, ok=False)
