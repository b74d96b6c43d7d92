"""Events that say something is ready; a failed send is no loss, because the rows are looked at again."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from app.agent.harness import Harness
from app.channels import outbox
from app.db import Tx
from app.events import Destination, MessageReceived, ReplyReady, message_event_id
from app.ids import new_id
from app.sessions import deposit, session

log = logging.getLogger("moab.agent")

SEND_WITHIN_S = 1.0
SIGNAL_CHARS = 20_000
LATE_AFTER = timedelta(minutes=10)


class Chat(Protocol):
    """Where something is told: a channel's name and a destination in its terms."""

    @property
    def channel(self) -> str: ...
    @property
    def destination(self) -> Mapping[str, Any]: ...


async def announce(harness: Harness, events: Sequence[dict[str, Any]]) -> bool:
    """Send events within a second; False (and a log line) if the engine did not take them in time."""
    try:
        async with asyncio.timeout(SEND_WITHIN_S):
            await harness.sender.send(events)
    except Exception as error:  # any way of failing is the same here: the sweep sends again
        log.warning("The engine did not take %s (%r); it is sent again later.", [e["name"] for e in events], error)
        return False
    return True


def reply_event(harness: Harness, row: Any, session_key: str, event_id: str | None = None) -> dict[str, Any]:
    """`agent.reply.ready` for the chat of a delivery row, under a fresh id unless one is given."""
    ready = ReplyReady(
        turn_id=getattr(row, "run_id", None) or "",
        session_key=session_key,
        channel=row.channel,
        destination=Destination.model_validate(row.destination),
    )
    return ready.to_wire(event_id or f"{outbox.chat_key(ready.channel, ready.destination)}:{new_id(harness.clock)}")


def notice(
    tx: Tx, harness: Harness, key: str, session_id: str, chat: Chat, text: str, run_id: str | None = None
) -> list[dict[str, Any]]:
    """Put a text of the service's own out to a chat, once per `key`; the events that send it, none where the chat's
    channel is not there. `run_id` is of the turn whose answer it is.
    """
    if chat.channel not in harness.channels:
        return []
    destination = Destination.model_validate(chat.destination)
    outbox.put(
        tx,
        key,
        session_id=session_id,
        run_id=run_id,
        kind="notice",
        channel=chat.channel,
        destination=destination,
        parts=harness.channels[chat.channel].parts(text),
        text=text,
        now=harness.clock.now(),
    )
    ready = ReplyReady(
        turn_id="", session_key=session.key_of(tx, session_id), channel=chat.channel, destination=destination
    )
    return [ready.to_wire(f"{outbox.chat_key(chat.channel, destination)}:{new_id(harness.clock)}")]


def machine_input(
    tx: Tx, harness: Harness, key: str, session_key: str, chat: Chat, text: str, origin: str
) -> MessageReceived:
    """Store what a machine says into a conversation, once per `key`; its start signal, which steers nobody."""
    event = MessageReceived(
        message=text,
        message_key=key,
        session_key=session_key,
        channel=chat.channel,
        destination=Destination.model_validate(chat.destination),
        origin=origin,
        steers=False,
    )
    deposit.deposit(tx, event, key, new_session_id=new_id(harness.clock), now=harness.clock.now())
    return event


def sent_at(stated: str | None, came_in: datetime) -> datetime:
    """When the platform says that something was sent, unless that is nonsense; else when it came in here."""
    try:
        sent = datetime.fromisoformat(stated or "")
    except ValueError:
        return came_in
    return min(came_in, sent if sent.tzinfo else sent.replace(tzinfo=UTC))


async def start_message(harness: Harness, event: MessageReceived, message_key: str, cause: str = "first") -> bool:
    """Send a stored message's start signal and note that it was taken.

    The signal carries the beginning of a long text only: engines limit events, and the row has it all. What was sent
    long ago steers nobody: two hundred messages of a weekend would begin, and pay for, as many turns.
    """
    steers = event.steers and harness.clock.now() - sent_at(event.sent_at, harness.clock.now()) < LATE_AFTER
    signal = event.model_copy(update={"message": event.message[:SIGNAL_CHARS], "steers": steers})
    sent = await announce(harness, [signal.to_wire(message_event_id(message_key, cause))])
    if sent:
        await harness.db.write(deposit.mark_event_sent, message_key, harness.clock.now())
    return sent
