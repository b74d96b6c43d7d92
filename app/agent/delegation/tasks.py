"""Delegation beside the conversation: tasks in the background or at a time, begun once, reported once, cancellable."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select

from app.agent.announce import announce
from app.agent.delegation.delegated import began, follow
from app.agent.delegation.passed_on import with_context
from app.agent.flow import Flow, Observation
from app.agent.harness import Harness
from app.agent.receive import receive
from app.db import Tx, moment
from app.errors import BadInput
from app.events import Destination, MessageReceived, SubagentSpawn
from app.ids import new_id
from app.sessions import calls, deposit, session, tasks, transcript, turns
from app.sessions.calls import CallRecord
from app.sessions.tasks import OPEN, TaskState
from app.tables import calls as call_rows
from app.tables import messages

APART = {"background": "background", "at": "scheduled"}
"""The modes of delegate_task that do not wait, and what events and rows call them."""

MAX_OPEN = 20
LONGEST = timedelta(days=366)
SHOWN_CHARS = 80
MACHINE = "Only a turn that a person started may do this: ask the user first, or use mode wait."


def delegate_apart(
    tx: Tx, harness: Harness, flow: Flow, record: CallRecord, arguments: Mapping[str, Any]
) -> Observation | None:
    """Write a task down that nobody waits for, and finish its call; None if the call is to be waited for."""
    mode = APART.get(str(arguments.get("mode")))
    if mode is None:
        return None
    now = harness.clock.now()
    try:
        due_at = _due(harness, arguments.get("at")) if mode == "scheduled" else None
        _check(tx, flow)
    except BadInput as error:
        calls.finish(tx, record.id, ok=False, result=str(error), now=now)
        return Observation(kind="done", ok=False)
    task_id = _id_of(record)
    tasks.add(
        tx,
        task_id,
        session_id=flow.session_id,
        run_id=flow.run_id,
        step_key=record.step_key,
        mode=mode,
        task=str(arguments.get("task", "")),
        model=arguments.get("model"),
        due_at=due_at,
        now=now,
    )
    when = f"It begins at {local_time(harness, due_at)}." if due_at else "It works in the background."
    text = f"Task {task_id} is set. {when} You and the user are told when it ends; cancel_task ends it before."
    calls.finish(tx, record.id, ok=True, result=text, now=now)
    return Observation(kind="done")


def _id_of(record: CallRecord) -> str:
    return "t" + hashlib.sha256(f"{record.run_id}:{record.step_key}".encode()).hexdigest()[:10]


def _check(tx: Tx, flow: Flow) -> None:
    if tasks.count_open(tx, flow.session_key) >= MAX_OPEN:
        raise BadInput(f"There are {MAX_OPEN} open tasks already; list_tasks shows them, cancel_task ends one.")
    if not any(row.origin == "person" for row in deposit.open_inputs(tx, flow.session_id)):
        raise BadInput(MACHINE)  # else what a task reports could set tasks for ever


def _due(harness: Harness, at: Any) -> datetime:
    """The moment that a model named. Raises BadInput with the accepted form and the present time."""
    now = harness.clock.now()
    text = str(at or "").strip()
    zone = harness.daily_log.zone
    form = f"accepted: a time such as 2026-12-24T18:00 ({zone.key}), or +90m, +2h, +3d"
    form += f"; it is now {local_time(harness, now)}"
    due = parse_moment(text, now, zone)
    if due is None:
        raise BadInput(f"at={text!r} is not a time; {form}.")
    if not now - timedelta(minutes=1) <= due <= now + LONGEST:
        raise BadInput(f"at={text!r} is in the past or more than a year ahead; {form}.")
    return due


def parse_moment(text: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    """ISO time, in `zone` where it names none, or `+90m` from now; in UTC. None if it is neither. Pure."""
    if found := re.fullmatch(r"\+(\d{1,6})\s*([mhd])", text):
        unit = {"m": "minutes", "h": "hours", "d": "days"}[found[2]]
        return now + timedelta(**{unit: int(found[1])})
    try:
        named = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (named if named.tzinfo else named.replace(tzinfo=zone)).astimezone(UTC)


def local_time(harness: Harness, at: datetime) -> str:
    return f"{harness.daily_log.local(at):%Y-%m-%d %H:%M}"


async def send_start(harness: Harness, run_id: str, step_key: str) -> None:
    """Send the start of the task that this call made, if it has yet to begin."""
    row = await harness.db.read(tasks.of_step, run_id, step_key)
    if row is not None and row.state == TaskState.WAITING:
        await announce(harness, [start_event(row, f"{run_id}:{step_key}:spawn")])


def start_event(row: Any, event_id: str) -> dict[str, Any]:
    """`agent.subagent.spawn` of a task's row; what is long stays in the row."""
    due_at = moment(row.due_at)
    spawn = SubagentSpawn(
        task_id=row.id,
        task=row.task[:SHOWN_CHARS],
        sub_session_key=f"task:{row.id}",
        parent_session_key=row.session_key,
        mode=row.mode,
        model=row.model,
        parent_run_id=row.run_id,
        parent_step_key=row.step_key,
        due_at=due_at.isoformat() if due_at else None,
    )
    return spawn.to_wire(event_id)


def lost_starts(tx: Tx, harness: Harness, session_key: str | None) -> list[dict[str, Any]]:
    """Fresh starts of tasks that should have begun."""
    rows = tasks.overdue(tx, session_key, harness.clock.now())
    return [start_event(row, f"{row.id}:again:{new_id(harness.clock)}") for row in rows]


async def receive_task(harness: Harness, run_id: str, spawn: SubagentSpawn) -> dict[str, Any]:
    """A sub-agent's Flow as JSON: the task with what it is told of its parent's conversation, begun once."""
    text = await harness.db.write(_admit, harness, run_id, spawn)
    if text is None:
        return Flow(run_id=run_id, session_key=spawn.sub_session_key, stop="superseded", delegates=False).wire()
    return await receive(harness, run_id, task_message(spawn, text), spawn.task_id, False)


def task_message(spawn: SubagentSpawn, text: str) -> MessageReceived:
    """The task as the first message of the sub-agent's own session."""
    return MessageReceived(
        message=text,
        message_key=spawn.task_id,
        session_key=spawn.sub_session_key,
        channel="task",
        destination=Destination(chat_id=spawn.task_id),
        origin="task",
    )


def _admit(tx: Tx, harness: Harness, run_id: str, spawn: SubagentSpawn) -> str | None:
    """The text of the task; None if it was cancelled, has ended, or another run is at it."""
    row = tasks.find(tx, spawn.task_id) if spawn.mode != "wait" else None
    if row is not None and (row.state not in OPEN or _is_of_another_run(tx, spawn, run_id)):
        return None
    task = row.task if row is not None else spawn.task
    began(tx, harness, spawn.sub_session_key, spawn.parent_session_key, str(task), watched=spawn.mode != "wait")
    if row is not None:
        follow(tx, harness, row.id)
    call = _parents_call(tx, spawn)
    if call is None:
        return str(task)
    entries = transcript.load(tx, call.session_id, call.parent_id) if call.handed_over in ("all", "summary") else []
    return with_context(str(task), call.handed_over, entries)


def _is_of_another_run(tx: Tx, spawn: SubagentSpawn, run_id: str) -> bool:
    sub_session = session.find(tx, spawn.sub_session_key)
    turn = turns.newest(tx, sub_session) if sub_session else None
    return turn is not None and turn.run_id != run_id


@dataclass(frozen=True)
class ParentsCall:
    """Where in its parent's conversation a task was delegated, and what of it is handed over."""

    session_id: str
    parent_id: int | None
    handed_over: str


def _parents_call(tx: Tx, spawn: SubagentSpawn) -> ParentsCall | None:
    query = (
        select(call_rows.c.session_id, call_rows.c.arguments, messages.c.parent_id)
        .join(messages, messages.c.id == call_rows.c.message_id)
        .where(call_rows.c.run_id == spawn.parent_run_id, call_rows.c.step_key == spawn.parent_step_key)
    )
    row = tx.execute(query).first()
    return None if row is None else ParentsCall(row.session_id, row.parent_id, _handed_over(row.arguments))


def _handed_over(arguments: str) -> str:
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return "none"
    return str(parsed.get("handed_over", "none")) if isinstance(parsed, dict) else "none"
