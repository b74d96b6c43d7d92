"""Delivery rows: what is to be sent, in the order of its chat, each part claimed before and receipted after."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, insert, or_, select, update

from app.channels.channel import Absent, Later, Part, Refused, SendResult, Sent, Unknown
from app.db import Tx, moment
from app.events import Destination, wire_safe
from app.open_rows import PART_PENDING, PART_SENDING
from app.sentences import UNKNOWN_NOTICE, say
from app.tables import deliveries, messages, people, sessions

EXPIRES_AFTER = timedelta(hours=24)
BACKOFF_S = (2.0, 8.0, 30.0, 120.0, 300.0)
STUCK_AFTER = timedelta(minutes=2)
"""A part claimed longer ago than this by a living process will not be heard of again."""
SETTLES_IN = timedelta(seconds=2)
"""How long a request whose sender is gone may still be under way, before it makes sense to ask for what it brought."""
VANISHED = "the service stopped between handing the part over and noting the receipt"
NOTICE_TRIES = 3
"""How often a notice is handed over that may not have arrived: the same line twice is better than none."""

OPEN_PREVIEWS = ("begun", "shown")

CROWDED = "asked to wait: "
"""How the reason of a part begins that a platform did not take because we say too much."""
CROWDED_CHATS = 2
"""In so many other chats at once, the limit is that of all chats together."""

REPEATABLE = frozenset({"terminal", "http"})
"""Channels whose clients come to fetch: sending is only a note in the database and may be done again."""


@dataclass(frozen=True)
class Delivery:
    """One part to send; or, if it is `doubtful`, to ask for, because it was handed over and nobody knows what came of
    it.
    """

    id: int
    channel: str
    destination: Destination
    part: Part
    attempts: int
    doubtful: bool = False


@dataclass(frozen=True)
class Blocked:
    """The next part of the chat may not be sent before `until`."""

    until: datetime


def chat_key(channel: str, destination: Destination) -> str:
    """What has an order and a rate of its own: one chat of one channel."""
    return f"{channel}:{destination.chat_id}"


def put(
    tx: Tx,
    key: str,
    *,
    session_id: str,
    run_id: str | None,
    kind: str,
    channel: str,
    destination: Destination,
    parts: Sequence[Part],
    text: str,
    now: datetime,
) -> None:
    """Write the parts of one text as rows `<key>/0`, `<key>/1`, …; a key that is there already adds nothing."""
    if exists(tx, key):
        return
    common = {
        "session_id": session_id,
        "run_id": run_id,
        "kind": kind,
        "channel": channel,
        "chat_key": chat_key(channel, destination),
        "destination": wire_safe(destination),
        "state": "pending",
        "created_at": now,
    }
    rows = [
        common | {"key": f"{key}/{i}", "part": wire_safe(part), "text": wire_safe(text if i == 0 else "")}
        for i, part in enumerate(parts)
    ]
    if rows:
        tx.execute(insert(deliveries), rows)


def parts_of(tx: Tx, key: str) -> Sequence[Any]:
    """The rows of one text, in order."""
    query = select(deliveries).where(deliveries.c.key.startswith(f"{key}/", autoescape=True)).order_by(deliveries.c.id)
    rows: Sequence[Any] = tx.execute(query).all()
    return rows


def begin_preview(
    tx: Tx, *, session_id: str, run_id: str, channel: str, destination: Destination, now: datetime
) -> str:
    """Note that a turn's answer is about to grow in a message of a platform, and give the message's mark. The row is no
    part to be sent.
    """
    key = f"{run_id}/preview"
    put(
        tx, key, session_id=session_id, run_id=run_id, kind="preview", channel=channel, destination=destination,
        parts=[{}], text="", now=now,
    )  # fmt: skip
    mark = f"{key}/0"
    tx.execute(update(deliveries).where(deliveries.c.key == mark, PART_PENDING).values(state="begun"))
    return mark


def note_preview(tx: Tx, run_id: str, message: str, now: datetime) -> None:
    """Remember that the answer of a turn grows in the message `message`."""
    values = {"state": "shown", "receipt": {"messageId": message}, "sent_at": now}
    tx.execute(update(deliveries).where(deliveries.c.key == f"{run_id}/preview/0").values(values))


def preview_of(tx: Tx, run_id: str) -> Any | None:
    """The row of the preview of a turn's answer, if there is one that nothing has replaced.

    `begun`: whether it came about is not known; `shown`: in the message of its receipt.
    """
    mine = deliveries.c.key == f"{run_id}/preview/0", deliveries.c.state.in_(OPEN_PREVIEWS)
    return tx.execute(select(deliveries).where(*mine)).first()


def in_place_of(preview: Any) -> dict[str, Any]:
    """What a part has that is to take the place of a preview."""
    if preview.state == "shown":
        return {"edit": str(preview.receipt["messageId"])}
    since = moment(preview.created_at)
    return {"instead": {"mark": preview.key, "since": since.isoformat() if since is not None else ""}}


def open_previews(tx: Tx, session_id: str) -> Sequence[Any]:
    query = select(deliveries).where(deliveries.c.session_id == session_id, deliveries.c.state.in_(OPEN_PREVIEWS))
    rows: Sequence[Any] = tx.execute(query.order_by(deliveries.c.id)).all()
    return rows


def close_preview(tx: Tx, run_id: str) -> None:
    tx.execute(update(deliveries).where(deliveries.c.key == f"{run_id}/preview/0").values(state="replaced"))


def language_of(tx: Tx, session_id: str) -> str:
    """The language of who spoke last in a session, as a tag such as `de` or `pt-BR`; "" if nobody says."""
    said = messages.c.session_id == session_id, messages.c.role == "user", messages.c.origin == "person"
    query = select(messages.c.channel_meta, messages.c.channel, messages.c.event).where(*said)
    row = tx.execute(query.where(messages.c.channel_meta.is_not(None)).order_by(messages.c.id.desc()).limit(1)).first()
    if row is None:
        return ""
    who = f"{row.channel}:{((row.event or {}).get('sender') or {}).get('id')}"
    kept = select(people.c.language).where(people.c.id == who)
    return str(row.channel_meta.get("languageCode") or tx.scalar(kept) or "")


def withdraw(tx: Tx, key: str, reason: str) -> None:
    """Take back the parts of a text that nobody began to send: they are no longer true."""
    waiting = deliveries.c.key.startswith(f"{key}/", autoescape=True), PART_PENDING
    tx.execute(update(deliveries).where(*waiting).values(state="expired", reason=reason))


def exists(tx: Tx, key: str) -> bool:
    return tx.scalar(select(deliveries.c.id).where(deliveries.c.key == f"{key}/0")) is not None


def claim_next(tx: Tx, chat: str, boot_id: str, now: datetime) -> Delivery | Blocked | None:
    """The oldest unsent part of a chat, now ours to send or to ask for.

    Blocked while its turn has not come; None if all are done.

    A part that was tried and could not go out for EXPIRES_AFTER is given up; one never tried is tried at any age,
    because the wait was ours.
    """
    while (row := _oldest_unsent(tx, chat)) is not None:
        not_before = moment(row.not_before)
        created_at = moment(row.created_at)
        if row.state == "pending" and row.attempts and created_at is not None and created_at <= now - EXPIRES_AFTER:
            values = {"state": "expired", "reason": "not sent within 24 hours"}
            tx.execute(update(deliveries).where(deliveries.c.id == row.id).values(values))
        elif not_before is not None and not_before > now:
            return Blocked(not_before)
        elif (until := _crowded_until(tx, row, now)) is not None:
            return Blocked(until)
        else:
            return _claim(tx, row, boot_id, now)
    return None


def _crowded_until(tx: Tx, row: Any, now: datetime) -> datetime | None:
    """Until when a platform wants nothing more of us at all: it has asked to wait in several chats at once."""
    query = select(deliveries.c.chat_key, deliveries.c.not_before).where(
        PART_PENDING,
        deliveries.c.channel == row.channel,
        deliveries.c.chat_key != row.chat_key,
        deliveries.c.not_before > now,
        deliveries.c.reason.startswith(CROWDED),
    )
    asked = {one.chat_key: moment(one.not_before) for one in tx.execute(query).all()}
    times = [at for at in asked.values() if at is not None]
    return max(times) if len(times) >= CROWDED_CHATS else None


def _oldest_unsent(tx: Tx, chat: str) -> Any | None:
    query = (
        select(deliveries)
        .where(deliveries.c.chat_key == chat, deliveries.c.state.in_(("pending", "sending")))
        .order_by(deliveries.c.id)
        .limit(1)
        .with_for_update()
    )
    return tx.execute(query).first()


def _claim(tx: Tx, row: Any, boot_id: str, now: datetime) -> Delivery:
    doubtful = row.state == "sending"
    attempts = row.attempts + (0 if doubtful else 1)
    claimed = {"state": "sending", "boot_id": boot_id, "not_before": now + STUCK_AFTER, "attempts": attempts}
    tx.execute(update(deliveries).where(deliveries.c.id == row.id).values(claimed))
    destination = Destination.model_validate(row.destination)
    part = row.part | {"key": row.key, "since": (moment(row.created_at) or now).isoformat()}
    return Delivery(row.id, row.channel, destination, part, attempts, doubtful)


def is_handed_over(delivery: Delivery) -> bool:
    """Whether a part is a file that a tool was told to send; one that is an answer read aloud is none."""
    return str(delivery.part.get("key", "")).startswith("file/") and bool(delivery.part.get("file"))


def record(tx: Tx, delivery: Delivery, result: SendResult | Absent, now: datetime) -> None:
    """Write down what became of a claimed part. Absent: it was asked for and did not arrive, so it is sent again."""
    values: dict[str, Any]
    match result:
        case Sent(receipt=receipt):
            values = {"state": "sent", "receipt": wire_safe(receipt), "sent_at": now, "reason": None}
        case Later(after_s=after_s, reason=reason, crowded=crowded):
            reason = f"{CROWDED}{reason}" if crowded else reason
            pause = after_s if after_s is not None else _pause(delivery)
            values = {"state": "pending", "not_before": now + timedelta(seconds=pause), "reason": reason}
        case Refused(reason=reason):
            values = {"state": "failed", "reason": reason}
        case Absent():
            values = {"state": "pending", "not_before": None, "reason": "it did not arrive and is sent again"}
        case Unknown(reason=reason) if _may_be_repeated(tx, delivery):
            pause = 0.0 if reason == VANISHED else _pause(delivery)
            values = {"state": "pending", "not_before": now + timedelta(seconds=pause), "reason": f"again: {reason}"}
        case Unknown(reason=reason):
            values = {"state": "unknown", "reason": reason}
    mine = [deliveries.c.id == delivery.id, PART_SENDING, deliveries.c.attempts == delivery.attempts]
    if values["state"] == "sent":  # a receipt is a fact, also for a part that was taken for lost in the meantime
        mine[1:] = [deliveries.c.state.in_(("sending", "unknown", "pending"))]
    changed = tx.execute(update(deliveries).where(*mine).values(values)).rowcount
    if values["state"] == "unknown" and changed:
        _say_unknown(tx, row_of(tx, delivery.id), now)


def _may_be_repeated(tx: Tx, delivery: Delivery) -> bool:
    return row_of(tx, delivery.id).kind == "notice" and delivery.attempts < NOTICE_TRIES


def _pause(delivery: Delivery) -> float:
    return BACKOFF_S[min(delivery.attempts, len(BACKOFF_S)) - 1]


def doubt(tx: Tx, delivery: Delivery, asked: Absent | Later, now: datetime) -> None:
    """Leave a part whose request got no answer to be asked for, once it has settled or as late as the platform says."""
    row = row_of(tx, delivery.id)
    if (moment(row.created_at) or now) <= now - EXPIRES_AFTER:
        record(tx, delivery, Unknown("the platform could not be asked within 24 hours"), now)
        return
    stated = asked.after_s if isinstance(asked, Later) else None
    until = now + timedelta(seconds=_pause(delivery) if stated is None else stated)
    reason = asked.reason if isinstance(asked, Later) else "handed over without an answer"
    mine = deliveries.c.id == delivery.id, PART_SENDING, deliveries.c.attempts == delivery.attempts
    tx.execute(update(deliveries).where(*mine).values(boot_id=None, not_before=until, reason=reason))


def next_due(tx: Tx, chat: str) -> datetime | None:
    """When the next unsent part of a chat may be looked at (the past if now), or None if all are done."""
    query = (
        select(deliveries.c.not_before, deliveries.c.created_at)
        .where(deliveries.c.chat_key == chat, deliveries.c.state.in_(("pending", "sending")))
        .order_by(deliveries.c.id)
        .limit(1)
    )
    row = tx.execute(query).first()
    return None if row is None else moment(row.not_before) or moment(row.created_at)


def _say_unknown(tx: Tx, row: Any, now: datetime) -> None:
    if row.kind == "notice":
        return
    text = say(UNKNOWN_NOTICE, language_of(tx, row.session_id))
    notice = {
        "key": f"unknown/{row.id}/0",
        "session_id": row.session_id,
        "run_id": row.run_id,
        "kind": "notice",
        "channel": row.channel,
        "chat_key": row.chat_key,
        "destination": row.destination,
        "part": {"text": text},
        "text": text,
        "state": "pending",
        "created_at": now,
    }
    if not exists(tx, f"unknown/{row.id}"):
        tx.execute(insert(deliveries).values(notice))


def row_of(tx: Tx, delivery_id: int) -> Any:
    return (tx.execute(select(deliveries).where(deliveries.c.id == delivery_id))).one()


def close_dead(tx: Tx, home_id: str, boot_id: str, now: datetime) -> int:
    """At start-up: the parts that a dead boot of this home had claimed are in doubt; how many there are.

    A mailbox hands nothing over, so there the part simply waits again.
    """
    dead = (
        PART_SENDING,
        deliveries.c.boot_id.startswith(home_id + ":", autoescape=True),
        deliveries.c.boot_id != boot_id,
    )
    fetched = deliveries.c.channel.in_(REPEATABLE)
    again = {"state": "pending", "not_before": None}
    doubtful = {"boot_id": None, "not_before": now + SETTLES_IN, "reason": VANISHED}
    refilled = tx.execute(update(deliveries).where(*dead, fetched).values(again)).rowcount
    return refilled + tx.execute(update(deliveries).where(*dead).values(doubtful)).rowcount


def unsent_chats(tx: Tx, now: datetime) -> Sequence[Any]:
    """One row (chat_key, channel, destination, run_id, session_key) per chat that has a part to send or to ask for, or
    one whose sender has vanished.
    """
    vanished = or_(deliveries.c.boot_id.is_(None), deliveries.c.not_before <= now)
    query = (
        select(
            deliveries.c.chat_key,
            deliveries.c.channel,
            deliveries.c.destination,
            deliveries.c.run_id,
            sessions.c.key.label("session_key"),
        )
        .join(sessions, sessions.c.id == deliveries.c.session_id)
        .where(
            or_(
                PART_PENDING,
                and_(PART_SENDING, vanished),
            )
        )
        .order_by(deliveries.c.id)
    )
    found: dict[str, Any] = {}
    for row in tx.execute(query).all():
        found.setdefault(row.chat_key, row)
    return list(found.values())


def since(tx: Tx, session_ids: Sequence[str], after: int) -> Sequence[Any]:
    """Delivered rows of sessions with an id over `after`, for clients that fetch."""
    query = (
        select(deliveries)
        .where(deliveries.c.session_id.in_(session_ids), deliveries.c.id > after, deliveries.c.state == "sent")
        .order_by(deliveries.c.id)
    )
    rows: Sequence[Any] = tx.execute(query).all()
    return rows
