"""Sending one part: claimed in one transaction, handed over, receipted in the next."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.channels import outbox
from app.channels.channel import Absent, Channel, Later, Refused, SendResult, Sent, Unknown
from app.channels.outbox import Blocked, Delivery
from app.clock import Clock
from app.db import Database, Tx
from app.failpoints import reach
from app.sentences import Sentence, retell, say

NOT_SENT = Sentence("The file {name} could not be sent: {reason}")

log = logging.getLogger("moab.channels")


@dataclass(frozen=True)
class Doubt:
    """Nobody knows yet whether a part arrived; the platform is asked again. `asked` is what it said just now."""

    asked: Absent | Later

    @property
    def reason(self) -> str:
        return self.asked.reason if isinstance(self.asked, Later) else "it may still be under way"


async def deliver_next(
    database: Database, channels: Mapping[str, Channel], clock: Clock, boot_id: str, chat: str
) -> dict[str, Any]:
    """Send the oldest unsent part of a chat: kind `sent`, `wait` (with `until`, ISO) or `done`, as JSON; `moved_to` is
    the number that the chat has now, if it got another one.

    Whoever finds an unsent part may send it; the claim on its row lets only one do so.
    """
    claimed = await database.write(outbox.claim_next, chat, boot_id, clock.now())
    if claimed is None:
        return {"kind": "done"}
    if isinstance(claimed, Blocked):
        return _wait(claimed.until)
    channel = channels.get(claimed.channel)
    result: SendResult | Absent | Doubt
    if claimed.doubtful:
        result = await _find(channel, claimed, Unknown(outbox.VANISHED))
    else:
        reach("send.claimed")
        result = await _send(channel, claimed)
        reach("send.accepted")
    rest = await database.write(_record, channel, claimed, result, chat, clock.now())
    reach("send.recorded")
    if not isinstance(result, Sent):
        _log(claimed, result)
    moved = {"moved_to": result.moved_to} if isinstance(result, Sent) and result.moved_to else {}
    if rest is None:
        return {"kind": "done"} | moved
    return ({"kind": "sent"} if rest <= clock.now() else _wait(rest)) | moved


async def _send(channel: Channel | None, delivery: Delivery) -> SendResult | Doubt:
    if channel is None:
        return Later(None, f"the channel {delivery.channel} is not configured")  # a start without its token is mended
    result = await channel.send(delivery.destination, delivery.part)
    if not isinstance(result, Unknown):
        return result
    found = await _find(channel, delivery, result)
    return Doubt(Absent()) if isinstance(found, Absent) else found


async def _find(channel: Channel | None, delivery: Delivery, doubt: Unknown) -> Sent | Absent | Unknown | Doubt:
    """What the platform says about a part that was handed over. `doubt` stays where it cannot be asked."""
    found = await channel.find(delivery.destination, delivery.part) if channel is not None else doubt
    match found:
        case Later():
            return Doubt(found)
        case Unknown():
            return doubt
    return found


def _record(
    tx: Tx, channel: Channel | None, delivery: Delivery, result: SendResult | Absent | Doubt, chat: str, now: datetime
) -> datetime | None:
    """Write the outcome down; when the next part of the chat is due, or None."""
    if isinstance(result, Doubt):
        outbox.doubt(tx, delivery, result.asked, now)
    else:
        outbox.record(tx, delivery, result, now)
    if isinstance(result, Refused) and channel is not None and outbox.is_handed_over(delivery):
        _say_not_sent(tx, channel, delivery, result.reason, now)
    return outbox.next_due(tx, chat)


def _say_not_sent(tx: Tx, channel: Channel, delivery: Delivery, reason: str, now: datetime) -> None:
    """A file that a tool handed over is taken for sent by the model, and so by who reads its answer."""
    row = outbox.row_of(tx, delivery.id)
    language = outbox.language_of(tx, row.session_id)
    text = say(
        NOT_SENT, language, name=delivery.part.get("name") or delivery.part["file"], reason=retell(reason, language)
    )
    outbox.put(
        tx,
        f"not-sent/{delivery.id}",
        session_id=row.session_id,
        run_id=row.run_id,
        kind="notice",
        channel=delivery.channel,
        destination=delivery.destination,
        parts=channel.parts(text),
        text=text,
        now=now,
    )


def _wait(until: datetime) -> dict[str, Any]:
    return {"kind": "wait", "until": until.isoformat()}


def _log(delivery: Delivery, result: Any) -> None:
    kind = type(result).__name__.lower()
    reason = getattr(result, "reason", "it is sent again")
    log.info("Delivery %d to %s: %s (%s).", delivery.id, delivery.channel, kind, reason)
