"""The way in behind every webhook: on disk first, then the start signal."""

import asyncio

from app.agent.announce import SEND_WITHIN_S, announce, start_message
from app.agent.approvals.decision import Outcome, take_answer
from app.agent.harness import Harness
from app.agent.people.gate import admit
from app.agent.people.moving import follow
from app.clock import milliseconds
from app.db import Tx
from app.errors import ServiceUnavailable
from app.events import CHAT_MOVED, CommandReceived, Destination, MessageReceived, message_event_id
from app.failpoints import reach
from app.ids import new_id
from app.sessions import deposit as deposit_rows
from app.sessions import edits, people
from app.sessions.deposit import Deposited, deposit
from app.sessions.moves import Move


async def accept(harness: Harness, event: MessageReceived | CommandReceived) -> bool:
    """Return once the input cannot be lost; a platform may then be told 200. `event.message_key` is required.

    False: its sender is not let in.

    A message is a row first; its event is sent within a second, or later by a second delivery, acknowledge or the
    sweep. A command lives in its event alone: ServiceUnavailable when the engine does not take it. An edit of a
    message never runs a command.
    """
    key = event.message_key
    if key is None:
        raise ValueError("an input from outside has a message key")
    if isinstance(event, CommandReceived) and event.command == CHAT_MOVED:  # now: what is said there next is let in
        await follow(harness, Move(event.channel, event.destination.chat_id, event.args))
        return True
    if not await admit(harness, event):
        return False
    await _take_in(harness, event, key)
    return True


async def _take_in(harness: Harness, event: MessageReceived | CommandReceived, key: str) -> None:
    if isinstance(event, CommandReceived):
        event = await harness.db.read(_meant, event)
        behind = await harness.db.read(deposit_rows.newest, event.session_key)
        at_ms = milliseconds(harness.clock.now())
        await _send_command(harness, event.model_copy(update={"behind": behind, "at_ms": at_ms}), key)
        return
    if event.edited is not None:
        if not await harness.db.read(edits.is_first_heard, event, key):
            await _accept_edit(harness, event, key)
            return
        event = event.model_copy(update={"edited": None})
    stored, answered = await harness.db.write(_store, harness, event, key)
    harness.notifier.publish(event.session_key)
    reach("deposit.committed")
    if stored is None:
        return
    if answered is not None:
        await announce(harness, answered.events)
    elif stored.event_due:
        await start_message(harness, event, key)


def _meant(tx: Tx, event: CommandReceived) -> CommandReceived:
    """A command for which its platform names no thread is for the one in which its sender has spoken last."""
    if not event.channel_meta.get("namesNoThread") or event.sender is None:
        return event
    last = deposit_rows.last_said_under(tx, f"{event.session_key}:", event.sender.id)
    if last is None:
        return event
    thread = event.destination.model_copy(update={"thread_id": Destination.model_validate(last.destination).thread_id})
    return event.model_copy(update={"session_key": last.key, "destination": thread})


async def _accept_edit(harness: Harness, event: MessageReceived, key: str) -> None:
    became = await harness.db.write(edits.edit, event, key, harness.clock.now())
    harness.notifier.publish(event.session_key)
    reach("deposit.committed")
    if became == "replaced":
        changed = event.model_copy(update={"sent_at": None})  # however old the message is, the change is of now
        await start_message(harness, changed, key, f"edit-{event.edited}")


def _store(tx: Tx, harness: Harness, event: MessageReceived, key: str) -> tuple[Deposited | None, Outcome | None]:
    """The message as a row; and what came of it if it answers a question, for then it is no start of a turn."""
    now = harness.clock.now()
    stored = deposit(tx, event, key, new_session_id=new_id(harness.clock), now=now)
    people.keep_told(tx, event, now)
    return stored, take_answer(tx, harness, event, stored) if stored is not None else None


async def _send_command(harness: Harness, event: CommandReceived, key: str) -> None:
    try:
        async with asyncio.timeout(10 * SEND_WITHIN_S):
            await harness.sender.send([event.to_wire(message_event_id(key))])
    except Exception as error:
        raise ServiceUnavailable("The engine does not take commands right now; send it again.") from error
