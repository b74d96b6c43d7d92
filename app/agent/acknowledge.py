"""What happens at once when a message arrives: it is stored, and the platform shows that it was."""

from datetime import timedelta
from typing import Any

from app.agent.conclude import conclude_message, next_try
from app.agent.harness import Harness
from app.agent.people.gate import admit_started
from app.channels.channel import Later
from app.events import MessageReceived
from app.ids import new_id
from app.sessions.deposit import closed, deposit
from app.sessions.session import OWNED_FOR


async def show_received(harness: Harness, event: MessageReceived, message_key: str, tries: int = 0) -> dict[str, Any]:
    """Typing sign and deposit; answers with when to look again whether somebody took the message up.

    A stranger's message, which came past the way in, is none. `again` is when to call this once more, with the `tries`
    that stand beside it: where the platform asks to wait before it shows the sign, or takes it away again.
    """
    if not await admit_started(harness, event, message_key):
        return {"shown": False, "look_again": None}
    channel = harness.channels.get(event.channel) if event.origin == "person" else None
    if event.channel_meta.get("unaddressed"):
        channel = None
    asked: bool | Later = False
    if channel is not None and await harness.db.read(closed, message_key) is None:
        asked = await channel.acknowledge(event.destination)
    now = harness.clock.now()
    stored = await harness.db.write(deposit, event, message_key, new_session_id=new_id(harness.clock), now=now)
    if stored is None:
        return {"shown": False, "look_again": None}
    shown = asked is True
    if channel is not None and (over := await harness.db.read(closed, message_key)) is not None:
        asked = await conclude_message(harness, over)  # the turn was faster than the sign
    again = next_try(harness, asked, tries) if isinstance(asked, Later) else None
    more = {"again": again.isoformat(), "tries": tries + 1} if again is not None else {}
    return {"shown": shown, "look_again": (now + OWNED_FOR + timedelta(seconds=1)).isoformat()} | more
