"""Commands in the background, looked after by the heartbeat: what is seen of them is written into the ledger."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from app.agent import quiet
from app.agent.announce import machine_input, start_message
from app.agent.delegation.supervise import chat_of
from app.agent.delegation.tracked import BY_PERSON, observation_of
from app.agent.harness import Harness
from app.agent.tool import Sighting
from app.db import Tx
from app.events import MessageReceived
from app.sessions import calls
from app.sessions.calls import CallState
from app.work import ledger, supervision, tracking
from app.work.observation import Kind, Observation, Status
from app.work.supervision import Executor

GREW_EVERY = timedelta(minutes=10)
RUNS_EVERY = timedelta(hours=1)
"""How often it is written down that a command prints, and that it runs. The monitor would ask after six hours."""

ENDED = """The {goal} has ended: {how}
{last}
It is not from the user. {hint}"""


async def observe_commands(harness: Harness) -> dict[str, Any]:
    """For the heartbeat: look at each command that this home has started; `{"looked": …, "ended": …}`, as JSON.

    One that ended while nobody looked is told to the conversation that started it, once.
    """
    looked = ended = 0
    for task_id, place in await harness.db.read(_own, harness):
        looked += 1
        seen = await asyncio.to_thread(harness.commands.seen, harness.workspace.root / place, task_id)
        told = await harness.db.write(_note, harness, task_id, seen)
        if told is not None:
            ended += 1
            await start_message(harness, told, str(told.message_key))
    return {"looked": looked, "ended": ended}


def _own(tx: Tx, harness: Harness) -> list[tuple[str, str]]:
    """(id, folder below the workspace) of the commands that run on this machine, as far as is known; without those that
    are being started, of which their calls will tell.
    """
    found = []
    for watch in supervision.everything(tx, Executor.COMMAND):
        opening = tracking.opening_of(ledger.of_task(tx, watch.task_id))
        if opening.get("home") == harness.home and not _is_starting(tx, opening):
            found.append((watch.task_id, str(opening.get("place", ""))))
    return found


def _is_starting(tx: Tx, opening: Mapping[str, Any]) -> bool:
    call = calls.find(tx, str(opening.get("run")), str(opening.get("call")))
    return call is not None and call.state == CallState.STARTED


def _note(tx: Tx, harness: Harness, task_id: str, seen: Sequence[Sighting]) -> MessageReceived | None:
    known, now = ledger.of_task(tx, task_id), harness.clock.now()
    if not known or ledger.derived(tx, task_id).is_terminal:
        return None
    news = [one for sighting in seen if (one := _news(known, sighting, now)) is not None]
    if not news:
        return None
    observations = [observation_of(one, f"look:{len(known)}:{number}", now) for number, one in enumerate(news)]
    derived = tracking.record(tx, *observations)
    return _tell(tx, harness, known, observations[-1]) if derived.is_terminal else None


def _news(known: Sequence[Observation], seen: Sighting, now: datetime) -> Sighting | None:
    """What is worth a line: an end always, and the first sight of it; that it prints, or only runs, now and then."""
    if seen.data.get("status") != Status.PENDING or all(one.kind is Kind.STARTED for one in known):
        return seen
    last, printed = known[-1].at, max(int(one.data.get("bytes", 0)) for one in known)
    size = int(seen.data.get("bytes", 0))
    if size > printed and now - last >= GREW_EVERY:
        return replace(seen, kind=Kind.HEARTBEAT, data={"success": True, "bytes": size})
    return seen if now - last >= RUNS_EVERY else None


def _tell(tx: Tx, harness: Harness, known: Sequence[Observation], end: Observation) -> MessageReceived | None:
    """The end as an input of the conversation that started it; None where that has no chat, as a sub-agent's, and where
    no person did, or what ends could start what ends again.
    """
    chat = chat_of(tx, harness, tracking.owner_of(known))
    if chat is None or tracking.opening_of(known).get("by") != BY_PERSON:
        return None
    how = end.data.get("how", "exit code 0")
    text = ENDED.format(
        goal=tracking.opening_of(known).get("goal"),
        how=how,
        last=end.summary.removeprefix(how).strip(),
        hint=quiet.HINT,
    )
    key = f"command:{end.task_id}:ended"
    return machine_input(tx, harness, key, chat.session_key, chat, text, quiet.COMMAND)
