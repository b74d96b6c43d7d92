"""A command whose run failed for good: who gave it is told once, or would wait for ever."""

from collections.abc import Mapping
from typing import Any

from app.agent.announce import announce, notice, reply_event
from app.agent.approvals.closing import Place
from app.agent.approvals.decision import COMMANDS as DECISIONS
from app.agent.harness import APP_ID, Harness
from app.agent.people.commands import COMMANDS
from app.agent.people.gate import admit_started
from app.channels import outbox
from app.db import Tx
from app.errors import BadInput
from app.events import CHAT_MOVED, CommandReceived, wire_safe
from app.ids import new_id
from app.sentences import Sentence, say
from app.sessions import session

FAILED_COMMAND = Sentence(
    "Something went wrong inside me with /{command}, and it may not have been carried out (run {run_id}). "
    "Please try again."
)


async def tell_failed_command(harness: Harness, failed: Mapping[str, Any]) -> bool:
    """Whether the run that failed was at a command, by the data of `inngest/function.failed`; then its sender is told.

    A command that was carried out has its answer in the outbox: there it is only the sending that may be missing.
    """
    started = failed.get("event") or {}
    data = started.get("data") or {}
    if failed.get("function_id") != f"{APP_ID}-acknowledge" or "command" not in data:
        return False
    try:
        command = CommandReceived.from_data(data)
    except BadInput:
        return False
    key = command.message_key or f"event:{started.get('id')}"
    if _is_for_us(command) and await admit_started(harness, command, key):
        events = await harness.db.write(_tell, harness, command, key, str(failed.get("run_id", "")))
        await announce(harness, events)
    return True


def _is_for_us(command: CommandReceived) -> bool:
    """Not what the platform tells by itself, nor what may be for another bot of the group."""
    is_ours = command.command in COMMANDS or command.command in DECISIONS
    return command.command != CHAT_MOVED and (is_ours or not command.channel_meta.get("unnamed"))


def _tell(tx: Tx, harness: Harness, command: CommandReceived, key: str, run_id: str) -> list[dict[str, Any]]:
    if outbox.exists(tx, f"{key}/command"):
        return [reply_event(harness, command, command.session_key)]
    language = str(command.channel_meta.get("languageCode") or "")
    text = say(FAILED_COMMAND, language, command=command.command, run_id=run_id)
    session_id = session.open_session(tx, command.session_key, new_id(harness.clock), harness.clock.now())
    place = Place(command.channel, wire_safe(command.destination))
    return notice(tx, harness, f"{key}/failed", session_id, place, text)
