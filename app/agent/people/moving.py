"""A chat that got another number: its files, its rows and what is on its way to it follow, and nothing is lost."""

import asyncio
import logging
from typing import Any

from app.agent.announce import announce, reply_event
from app.agent.harness import Harness
from app.channels import outbox
from app.channels.delivery import deliver_next
from app.db import Tx
from app.sessions import moves
from app.sessions.moves import Move
from app.sessions.people import folder_of

log = logging.getLogger("moab.agent")

LISTED = (
    "The chat %s is %s now and stays allowed. The settings name only the old number: put the new one into %s_ALLOWED…, "
    "or leave it to `moab people`."
)


async def follow(harness: Harness, chat: Move) -> dict[str, Any]:
    """Move all that is kept of a chat to its new number. Safe to repeat: the files first, then the rows."""
    old, new = (folder_of(one) for one in chat.ids)
    await asyncio.to_thread(harness.workspace.move_principal, old, new)
    events = await harness.db.write(_move, harness, chat)
    log.info("The chat %s is %s now.", *chat.ids, extra={"action": "chat_moved"})
    if events:
        await announce(harness, events)
    return {"moved": chat.new}


def _move(tx: Tx, harness: Harness, chat: Move) -> list[dict[str, Any]]:
    now = harness.clock.now()
    is_listed = chat.old in (harness.settings.allow_lists.get(chat.channel) or ())
    if is_listed:
        log.warning(LISTED, *chat.ids, chat.channel.upper(), extra={"action": "chat_moved_listed"})
    events = moves.move(tx, chat, is_listed, now)
    waiting = [row for row in outbox.unsent_chats(tx, now) if row.chat_key == chat.ids[1]]
    return [*events, *(reply_event(harness, row, row.session_key) for row in waiting)]


async def send_next(harness: Harness, chat_key: str) -> dict[str, Any]:
    """Send the oldest unsent part of a chat (see `deliver_next`); where the platform says that it moved, follow."""
    done = await deliver_next(harness.db, harness.channels, harness.clock, harness.boot_id, chat_key)
    if "moved_to" in done:
        channel, _, old = chat_key.partition(":")
        await follow(harness, Move(channel, old, str(done["moved_to"])))
    return done
