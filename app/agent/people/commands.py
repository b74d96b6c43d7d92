"""Commands of people (/stop, /new, /status and others): carried out once each, also while a turn runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

from sqlalchemy import select, update

from app.agent.announce import announce, reply_event
from app.agent.approvals.closing import supersede
from app.agent.conclude import concluded
from app.agent.delegation import task_list
from app.agent.harness import Harness
from app.agent.people import status
from app.agent.people.gate import admit_started, pair_command, zone_command
from app.agent.people.moving import follow
from app.agent.people.preview import give_up
from app.agent.people.undo import undo_files
from app.aloud import how, why_not
from app.channels import outbox
from app.clock import milliseconds
from app.db import Tx
from app.errors import NotFound
from app.events import CHAT_MOVED, CommandReceived, TurnStopped
from app.failpoints import reach
from app.ids import new_id
from app.sentences import Sentence, counted, say
from app.sessions import calls, deposit, people, search, session, tasks, transcript, turns, undo
from app.sessions.calls import CallState
from app.sessions.moves import Move
from app.tables import sessions

HELP = (
    Sentence("/stop ends what I am doing; /stop with the id of a task ends that task, /stop all everything"),
    Sentence("/new starts a fresh conversation; the old one is kept"),
    Sentence("/sessions lists the conversations"),
    Sentence("/status shows where things stand"),
    Sentence("/tasks lists what runs in the background or is set for a time"),
    Sentence("/model [name or default] shows or changes the model of this conversation"),
    Sentence("/voice [on or off] has answers read aloud too, as voice messages"),
    Sentence("/think [off, low, medium or high] shows or changes how much the model thinks"),
    Sentence("/approve or /deny, with its number and a reason, decides on a request; /answer answers a question"),
    Sentence("/undo takes back the last exchange"),
    Sentence("/undo files puts back the files that the last turn wrote"),
    Sentence("/search words looks for what was said"),
    Sentence("/timezone [name] shows or changes where you are in time"),
    Sentence("/pair makes a code that lets somebody else in (for admins)"),
    Sentence("/help is this"),
)
STOPPED_TASK = "Stopped by the user before the task came to an end."
THINK = ("off", "low", "medium", "high")
THINK_OR_NOT = ", ".join((*THINK, "default"))
MAX_MODEL_CHARS = 200
FOUND = 8
QUOTE_CHARS = 80


@dataclass(frozen=True)
class Asked:
    """A command as it is carried out: for which session, with which words, and behind which message it came in."""

    session_id: str
    session_key: str
    args: str
    behind: int | None = None
    event: CommandReceived | None = None

    @property
    def language(self) -> str:
        return str(self.event.channel_meta.get("languageCode") or "") if self.event is not None else ""

    def say(self, sentence: str, **values: Any) -> str:
        return say(sentence, self.language, **values)


@dataclass(frozen=True)
class Done:
    """What a command said, the run it stopped, if it did, and the tasks of sub-agents that it ended.

    `woken` are start signals of messages that it moved.
    """

    text: str
    stopped: str | None = None
    tasks: tuple[str, ...] = ()
    woken: tuple[dict[str, Any], ...] = ()


Command = Callable[[Tx, Harness, Asked], Done]


def _stop(tx: Tx, harness: Harness, asked: Asked) -> Done:
    if asked.args and asked.args.lower() != "all":
        return _stop_task(tx, harness, asked)
    done = _stop_turn(tx, harness, asked)
    others = tasks.open_of_key(tx, asked.session_key)
    if not asked.args:
        names = ", ".join(row.id for row in others)
        left = asked.say("Still open: {names}; /stop all ends them too.", names=names) if others else ""
        return replace(done, text=f"{done.text} {left}".strip())
    for row in others:
        task_list.cancel(tx, harness, asked.session_key, row.id)
    ended = asked.say("Cancelled: {names}.", names=", ".join(row.id for row in others)) if others else ""
    return replace(done, text=f"{done.text} {ended}".strip(), tasks=(*done.tasks, *(row.id for row in others)))


def _stop_task(tx: Tx, harness: Harness, asked: Asked) -> Done:
    try:
        task_list.cancel(tx, harness, asked.session_key, asked.args)
    except NotFound:
        return Done(asked.say("There is no open task {task}.", task=asked.args[:MAX_MODEL_CHARS]))
    return Done(asked.say("Cancelled: {names}.", names=asked.args), tasks=(asked.args,))


def _stop_turn(tx: Tx, harness: Harness, asked: Asked) -> Done:
    now = harness.clock.now()
    stopped = session.stop(tx, asked.session_id, now, asked.behind)
    supersede(tx, harness, asked.session_id, run_id="")
    give_up(tx, harness, asked.session_id)
    if stopped is not None:
        outbox.withdraw(tx, f"{stopped}/progress", "the turn was stopped")
    summary = _what_was_done(tx, asked, stopped)
    children = calls.running_children(tx, asked.session_id)
    for child in children:
        calls.finish(tx, child.id, ok=False, result=STOPPED_TASK, now=now)
        task_list.stop_session(tx, harness, child.child_key or "")
    text = " ".join([asked.say("Stopped."), *summary]) if stopped or children else asked.say("Nothing was running.")
    return Done(text, stopped, tuple(child.child_key or "" for child in children))


def _tasks(tx: Tx, harness: Harness, asked: Asked) -> Done:
    lines = task_list.describe(tx, harness, asked.session_key, asked.language)
    lines += task_list.describe_watched(tx, asked.session_key, asked.language)
    return Done("\n".join(f"- {line}" for line in lines) or asked.say("There are no open tasks in this conversation."))


def _what_was_done(tx: Tx, asked: Asked, run_id: str | None) -> list[str]:
    """The calls of a stopped turn in one or two sentences."""
    of_run = calls.of_run(tx, run_id) if run_id else []
    done = counted((name for name, state in of_run if state == CallState.FINISHED), asked.language)
    cut = [name for name, state in of_run if state in (CallState.STARTED, CallState.INTERRUPTED)]
    said = [asked.say("Done before that: {names}.", names=done)] if done else []
    return [*said, asked.say("Cut off: {names}.", names=", ".join(cut))] if cut else said


def _new(tx: Tx, harness: Harness, asked: Asked) -> Done:
    now = harness.clock.now()
    done = _stop_turn(tx, harness, asked)
    session.close(tx, asked.session_id, now)
    fresh = session.open_session(tx, asked.session_key, new_id(harness.clock), now)
    session.choose_as(tx, fresh, asked.session_id)
    moved = asked.behind is not None and deposit.carry_over(tx, asked.session_id, fresh, asked.behind)
    woken = deposit.wake_next(tx, fresh) if moved else None
    text = asked.say("A fresh conversation. The old one is kept (/sessions).")
    return replace(done, text=text, woken=(woken,) if woken is not None else ())


def _sessions(tx: Tx, harness: Harness, asked: Asked) -> Done:
    return Done(status.past_sessions(tx, harness, asked.session_key, asked.language))


def _status(tx: Tx, harness: Harness, asked: Asked) -> Done:
    return Done(status.status(tx, harness, asked.session_id, asked.session_key, asked.language))


def _model(tx: Tx, harness: Harness, asked: Asked) -> Done:
    name = asked.args
    if not name:
        own = tx.scalar(select(sessions.c.model).where(sessions.c.id == asked.session_id))
        if own:
            return Done(asked.say("Model: {model}.", model=own))
        return Done(asked.say("Model: {model} (the default).", model=harness.settings.model))
    if len(name) > MAX_MODEL_CHARS or len(name.split()) > 1:
        return Done(asked.say("A model is one name, such as openai/gpt-5.4, or default."))
    chosen = None if name.lower() == "default" else name
    tx.execute(update(sessions).where(sessions.c.id == asked.session_id).values(model=chosen))
    return Done(
        asked.say("Model: {model}, {when}.", model=chosen or harness.settings.model, when=_from_when(tx, asked))
    )


def _think(tx: Tx, harness: Harness, asked: Asked) -> Done:
    level = asked.args.lower()
    if not level:
        own = tx.scalar(select(sessions.c.think).where(sessions.c.id == asked.session_id))
        level = own or asked.say("as the model does by itself")
        return Done(asked.say("Thinking: {level}. Accepted: {accepted}.", level=level, accepted=THINK_OR_NOT))
    if level not in (*THINK, "default"):
        said = asked.say(
            "There is no level {level}. Accepted: {accepted}.", level=repr(level[:20]), accepted=THINK_OR_NOT
        )
        return Done(said)
    chosen = None if level == "default" else level
    tx.execute(update(sessions).where(sessions.c.id == asked.session_id).values(think=chosen))
    how_much = chosen or asked.say("as the model does by itself")
    return Done(asked.say("Thinking: {level}, {when}.", level=how_much, when=_from_when(tx, asked)))


def _voice(tx: Tx, harness: Harness, asked: Asked) -> Done:
    wanted = asked.args.lower()
    if wanted not in ("", "on", "off"):
        return Done(asked.say("There are /voice on and /voice off."))
    if wanted == "on" and not how(harness.settings.piper_voice):
        return Done(asked.say(why_not()))
    if wanted:
        chosen = {"spoken": wanted == "on"}
        tx.execute(update(sessions).where(sessions.c.id == asked.session_id).values(chosen))
    is_on = session.is_spoken(tx, asked.session_id)
    said = asked.say("Answers are read aloud too.") if is_on else asked.say("Answers are not read aloud.")
    return Done(f"{said.removesuffix('.')}, {_from_when(tx, asked)}." if wanted else said)


def _from_when(tx: Tx, asked: Asked) -> str:
    turn = turns.newest(tx, asked.session_id)
    is_live = turn is not None and turn.state == "live"
    return asked.say("from the next turn on") if is_live else asked.say("from now on")


def _undo(tx: Tx, harness: Harness, asked: Asked) -> Done:
    """A turn that runs is stopped first: then it is the last exchange. Files have their own way, before this."""
    if asked.args:
        return Done(
            asked.say("There are /undo (takes back the last exchange) and /undo files (puts back what was written).")
        )
    waiting = transcript.last_waiting(tx, asked.session_id, asked.behind)
    done = _stop_turn(tx, harness, asked)
    if asked.behind is not None:  # what came in since stands at the end of what is left
        deposit.carry_over(tx, asked.session_id, asked.session_id, asked.behind)
    taken = waiting if waiting is not None else undo.take_back(tx, asked.session_id)
    if taken is None:
        return replace(done, text=asked.say("There is nothing to take back."))
    flat = " ".join(taken.split())
    quote = flat[:QUOTE_CHARS] + ("…" if len(flat) > QUOTE_CHARS else "")
    wrote = undo.copies(tx, undo.last_runs(tx, asked.session_id))
    files = asked.say("/undo files puts back the files it wrote.") if wrote else ""
    taken_back = asked.say('Taken back: "{quote}" and what followed.', quote=quote)
    return replace(done, text=f"{taken_back} {files}".strip())


def _search(tx: Tx, harness: Harness, asked: Asked) -> Done:
    if not asked.args:
        return Done(asked.say("Say what to look for: /search words"))
    found = search.search(tx, asked.session_key, asked.args, FOUND)
    if not found:
        return Done(asked.say("Nothing was said with these words."))
    zone = harness.daily_log.zone
    lines = [
        f"- {one.at.replace(tzinfo=one.at.tzinfo or UTC).astimezone(zone):%Y-%m-%d %H:%M}, "
        f"{asked.say('I') if one.role == 'assistant' else asked.say('you')}: {one.snippet}"
        for one in found
    ]
    return Done("\n".join(lines))


def _pair(tx: Tx, harness: Harness, asked: Asked) -> Done:
    return Done(pair_command(tx, harness, asked.event) if asked.event is not None else "")


def _timezone(tx: Tx, harness: Harness, asked: Asked) -> Done:
    return Done(zone_command(tx, harness, asked.event) if asked.event is not None else "")


def _help(_tx: Tx, _harness: Harness, asked: Asked) -> Done:
    return Done("\n".join(map(asked.say, HELP)))


COMMANDS: dict[str, Command] = {
    "stop": _stop,
    "new": _new,
    "sessions": _sessions,
    "status": _status,
    "tasks": _tasks,
    "model": _model,
    "think": _think,
    "voice": _voice,
    "undo": _undo,
    "search": _search,
    "pair": _pair,
    "timezone": _timezone,
    "help": _help,
    "start": _help,
}


async def run_command(harness: Harness, event: CommandReceived, command_key: str) -> dict[str, Any]:
    """Carry out a command once per `command_key`; its answer becomes a delivery row. Answers with JSON."""
    if event.command == CHAT_MOVED:  # it came past the way in
        return await follow(harness, Move(event.channel, event.destination.chat_id, event.args))
    if event.command not in COMMANDS and event.channel_meta.get("unnamed"):
        return {"command": ""}  # another bot of the group is meant
    if not await admit_started(harness, event, command_key):
        return {"command": ""}
    on_files = event.command == "undo" and event.args.strip().lower() == "files"
    done_before = await harness.db.read(outbox.exists, f"{command_key}/command")
    said = await _undo_files(harness, event) if on_files and not done_before else None
    done = await harness.db.write(_carry_out, harness, event, command_key, said)
    reach("command.committed")
    events: list[dict[str, Any]] = []
    if done.stopped is not None:
        before_ms = event.at_ms or milliseconds(harness.clock.now())
        ended = TurnStopped(session_key=event.session_key, turn_id=done.stopped, before_ms=before_ms)
        events.append(ended.to_wire(f"{done.stopped}:stopped:{new_id(harness.clock)}"))
    events += [task_list.cancelled_event(harness, task, event.session_key) for task in done.tasks]
    events += done.woken
    events.append(reply_event(harness, event, event.session_key))
    await announce(harness, events)
    harness.notifier.publish(event.session_key)
    return {"command": event.command} | (await concluded(harness, done.stopped) if done.stopped is not None else {})


async def _undo_files(harness: Harness, event: CommandReceived) -> str:
    """In the workspace of whom the session works for."""

    def whose(tx: Tx) -> people.Principal:
        session_id = session.find(tx, event.session_key) or ""
        return people.principal_of(tx, session_id, harness.settings.approval_admins)

    who = await harness.db.read(whose)
    return await undo_files(harness.at(who.folder), event.session_key, event.channel_meta.get("languageCode"))


def _carry_out(tx: Tx, harness: Harness, event: CommandReceived, command_key: str, said: str | None) -> Done:
    """What was done; nothing if it was done before. `said` is the answer of a command whose work is done already."""
    now = harness.clock.now()
    if outbox.exists(tx, f"{command_key}/command"):
        return Done("")
    session_id = session.open_session(tx, event.session_key, new_id(harness.clock), now)
    command = COMMANDS.get(event.command, _unknown(event.command))
    asked = Asked(session_id, event.session_key, event.args.strip(), event.behind, event)
    done = Done(said) if said is not None else command(tx, harness, asked)
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


def _unknown(name: str) -> Command:
    def say_so(tx: Tx, harness: Harness, asked: Asked) -> Done:
        return Done(f"{asked.say('There is no /{name}.', name=name)}\n{_help(tx, harness, asked).text}")

    return say_so


def _parts(harness: Harness, channel: str, text: str) -> Sequence[Any]:
    return harness.channels[channel].parts(text) if channel in harness.channels else ({"text": text},)
