"""Sending one part: claimed in one transaction, handed over, receipted in the next."""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.channels import outbox
from app.channels.channel import Channel, Refused, SendResult, Sent
from app.channels.outbox import Blocked, Delivery
from app.clock import Clock
from app.db import Database, Tx
from app.failpoints import reach

log = logging.getLogger("moab.channels")


async def deliver_next(
    database: Database, channels: Mapping[str, Channel], clock: Clock, boot_id: str, chat: str
) -> dict[str, Any]:
    """Send the oldest unsent part of a chat: kind `sent`, `wait` (with `until`, ISO) or `done`, as JSON.

    Whoever finds an unsent part may send it; the claim on its row lets only one do so.
    """
    claimed = await database.write(outbox.claim_next, chat, boot_id, clock.now())
    if claimed is None:
        return {"kind": "done"}
    if isinstance(claimed, Blocked):
        return _wait(claimed.until)
    reach("send.claimed")
    channel = channels.get(claimed.channel)
    result = (
        await channel.send(claimed.destination, claimed.part)
        if channel is not None
        else Refused(f"the channel {claimed.channel} is not configured")
    )
    reach("send.accepted")
    rest = await database.write(_record, claimed, result, chat, clock.now())
    reach("send.recorded")
    if not isinstance(result, Sent):
        _log(claimed, result)
    if rest is None:
        return {"kind": "done"}
    return {"kind": "sent"} if rest <= clock.now() else _wait(rest)


def _record(tx: Tx, delivery: Delivery, result: SendResult, chat: str, now: datetime) -> datetime | None:
    """Write the outcome down; when the next part of the chat is due, or None."""
    outbox.record(tx, delivery, result, now)
    return outbox.next_due(tx, chat)


def _wait(until: datetime) -> dict[str, Any]:
    return {"kind": "wait", "until": until.isoformat()}


def _log(delivery: Delivery, result: Any) -> None:
    kind = type(result).__name__.lower()
    log.info("Delivery %d to %s: %s (%s).", delivery.id, delivery.channel, kind, result.reason)
