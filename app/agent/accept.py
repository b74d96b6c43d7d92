"""The way in behind every webhook: on disk first, then the start signal."""

import asyncio

from app.agent.announce import SEND_WITHIN_S, start_message
from app.agent.harness import Harness
from app.errors import ServiceUnavailable
from app.events import CommandReceived, MessageReceived, message_event_id
from app.failpoints import reach
from app.ids import new_id
from app.sessions.deposit import deposit


async def accept(harness: Harness, event: MessageReceived | CommandReceived) -> None:
    """Return once the input cannot be lost; a platform may then be told 200. `event.message_key` is required.

    A message is a row first; its event is sent within a second, or later by a second delivery, acknowledge or the
    sweep. A command lives in its event alone: ServiceUnavailable when the engine does not take it.
    """
    key = event.message_key
    if key is None:
        raise ValueError("an input from outside has a message key")
    if isinstance(event, CommandReceived):
        await _send_command(harness, event, key)
        return
    new_session = new_id(harness.clock)
    stored = await harness.db.write(deposit, event, key, new_session_id=new_session, now=harness.clock.now())
    harness.notifier.publish(event.session_key)
    reach("deposit.committed")
    if stored.event_due:
        await start_message(harness, event, key)


async def _send_command(harness: Harness, event: CommandReceived, key: str) -> None:
    try:
        async with asyncio.timeout(10 * SEND_WITHIN_S):
            await harness.sender.send([event.to_wire(message_event_id(key))])
    except Exception as error:
        raise ServiceUnavailable("The engine does not take commands right now; send it again.") from error
