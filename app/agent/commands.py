"""Commands of people (/stop, /new, /status, /help): carried out once each, also while a turn runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.agent.announce import announce, reply_event
from app.agent.harness import Harness
from app.channels import outbox
from app.db import Tx
from app.events import CommandReceived, TaskCancelled, TurnStopped
from app.ids import new_id
from app.sessions import calls, session, turns

HELP = "/stop ends what I am doing. /new starts a fresh conversation. /status shows where things stand. /help is this."
STOPPED_TASK = "Stopped by the user before the task came to an end."


@dataclass(frozen=True)
class Done:
    """What a command said, the run it stopped, if it did, and the tasks of sub-agents that it ended."""

    text: str
    stopped: str | None = None
    tasks: tuple[str, ...] = ()


Command = Callable[[Tx, Harness, str], Done]


def _stop(tx: Tx, harness: Harness, session_id: str) -> Done:
    now = harness.clock.now()
    stopped = session.stop(tx, session_id, now)
    children = calls.running_children(tx, session_id)
    for child in children:
        calls.finish(tx, child.id, ok=False, result=STOPPED_TASK, now=now)
        if sub_session := session.find(tx, child.child_key or ""):
            session.stop(tx, sub_session, now)
    text = "Stopped." if stopped or children else "Nothing was running."
    return Done(text, stopped, tuple(child.child_key or "" for child in children))


def _new(tx: Tx, harness: Harness, session_id: str) -> Done:
    done = _stop(tx, harness, session_id)
    session.close(tx, session_id, harness.clock.now())
    return replace(done, text="A fresh conversation. The old one is kept.")


def _status(tx: Tx, harness: Harness, session_id: str) -> Done:
    turn = turns.newest(tx, session_id)
    count = session.count_messages(tx, session_id)
    doing = "idle"
    if turn is not None and turn.state == "live":
        doing = f"{turn.activity}{f' ({turn.tool})' if turn.tool else ''}, step {turn.iteration + 1}"
    return Done(f"Model: {harness.settings.model}. Messages in this conversation: {count}. Now: {doing}.")


def _help(_tx: Tx, _harness: Harness, _session_id: str) -> Done:
    return Done(HELP)


COMMANDS: dict[str, Command] = {"stop": _stop, "new": _new, "status": _status, "help": _help, "start": _help}


async def run_command(harness: Harness, event: CommandReceived, command_key: str) -> dict[str, Any]:
    """Carry out a command once per `command_key`; its answer becomes a delivery row. Answers with JSON."""
    done = await harness.db.write(_carry_out, harness, event, command_key)
    events: list[dict[str, Any]] = []
    if done.stopped is not None:
        ended = TurnStopped(session_key=event.session_key, turn_id=done.stopped)
        events.append(ended.to_wire(f"{done.stopped}:stopped:{new_id(harness.clock)}"))
    for task in done.tasks:
        cancelled = TaskCancelled(task_id=task, session_key=event.session_key)
        events.append(cancelled.to_wire(f"{task}:cancelled:{new_id(harness.clock)}"))
    events.append(reply_event(harness, event, event.session_key))
    await announce(harness, events)
    harness.notifier.publish(event.session_key)
    return {"command": event.command}


def _carry_out(tx: Tx, harness: Harness, event: CommandReceived, command_key: str) -> Done:
    """What was done; nothing if it was done before."""
    now = harness.clock.now()
    if outbox.exists(tx, f"{command_key}/command"):
        return Done("")
    session_id = session.open_session(tx, event.session_key, new_id(harness.clock), now)
    command = COMMANDS.get(event.command)
    done = command(tx, harness, session_id) if command else Done(f"There is no /{event.command}. {HELP}")
    outbox.put(
        tx,
        f"{command_key}/command",
        session_id=session_id,
        run_id=None,
        kind="command",
        channel=event.channel,
        destination=event.destination,
        parts=_parts(harness, event.channel, done.text),
        text=done.text,
        now=now,
    )
    return done


def _parts(harness: Harness, channel: str, text: str) -> Sequence[Any]:
    return harness.channels[channel].parts(text) if channel in harness.channels else ({"text": text},)
