"""What one person said in conversations of groups: found, and blanked so that the rest stays a conversation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import or_, select, update

from app.db import Tx
from app.sessions.transcript import SUMMARY
from app.tables import approvals, calls, messages, turns

DELETED = "[deleted: whoever wrote this had it forgotten]"
FORGOTTEN = "forgotten"
"""Stands for a person in what remains: who asked, and who caused what was paid."""
KEPT_META = ("chatType", "chatTitle", "group", "mediaGroupId")
"""What a blanked message still says: of the chat, and nothing of who wrote it."""


def said(tx: Tx, person_id: str) -> Sequence[Any]:
    """The messages of a person in conversations of groups."""
    channel, _, number = person_id.partition(":")
    query = select(messages).where(messages.c.channel == channel, messages.c.event.is_not(None))
    rows = tx.execute(query.order_by(messages.c.id)).all()
    return [row for row in rows if (row.channel_meta or {}).get("group") and _sender(row.event) == number]


def _sender(event: Mapping[str, Any]) -> str:
    return str((event.get("sender") or {}).get("id") or "")


def files(rows: Sequence[Any]) -> list[tuple[str, str]]:
    """The files that came with these messages, and what was heard in them: the session, and a path."""
    found = [
        (row.session_id, str(file["path"]))
        for row in rows
        for file in row.data.get("attachments") or ()
        if file.get("path")
    ]
    return [*found, *((session_id, f"{path}.txt") for session_id, path in found)]


def quoting(tx: Tx, rows: Sequence[Any]) -> list[Any]:
    """The messages of others that quote what stands in `rows`, by the name of who wrote it."""
    quotes = _quotes(rows)
    query = select(messages).where(messages.c.session_id.in_({row.session_id for row in rows}))
    mine = {row.id for row in rows}
    found = [row for row in tx.execute(query.where(messages.c.role == "user")).all() if row.id not in mine]
    return [row for row in found if any(_is_quote(mark, quotes) for mark in row.data.get("marks") or ())]


def _quotes(rows: Sequence[Any]) -> list[re.Pattern[str]]:
    names = {name for row in rows for name in _names(row)}
    return [re.compile(rf"(In answer to the message of|Forwarded from) {re.escape(name)}(?!\w)") for name in names]


def _is_quote(mark: str, quotes: Sequence[re.Pattern[str]]) -> bool:
    return any(quote.match(mark) for quote in quotes)


def blank(tx: Tx, person_id: str) -> None:
    """Take the words of a person, his name and his files out of the conversations of groups.

    Each message stays, with a sentence in its place. Quotes of it go as well, and so does every summary of such a
    conversation: a new one is made of what is left when there is need of it.
    """
    rows = said(tx, person_id)
    others, quotes = quoting(tx, rows), _quotes(rows)
    for row in rows:
        tx.execute(update(messages).where(messages.c.id == row.id).values(_blanked(row)))
        turn = or_(turns.c.run_id == (row.answered_by or ""), turns.c.message_key == row.message_key)
        tx.execute(update(turns).where(turn).values(summary=None))
    for row in others:
        _unquote(tx, row, quotes)
    for session_id in {row.session_id for row in rows}:
        summary = messages.c.session_id == session_id, messages.c.role == SUMMARY
        tx.execute(update(messages).where(*summary).values(text=""))
    _decisions(tx, person_id)


def _blanked(row: Any) -> dict[str, Any]:
    meta = {name: value for name, value in (row.channel_meta or {}).items() if name in KEPT_META}
    event = {name: value for name, value in row.event.items() if name not in ("sender", "marks", "attachments")}
    event |= {"message": DELETED, "channelMeta": meta}
    data = {"group": True} | ({"edited": row.data["edited"]} if row.data.get("edited") else {})
    return {"text": DELETED, "data": data, "channel_meta": meta, "event": event}


def _names(row: Any) -> Iterator[str]:
    sender = row.event.get("sender") or {}
    for name in (sender.get("name"), sender.get("username"), row.data.get("sender")):
        if name:
            yield str(name)


def _unquote(tx: Tx, row: Any, quotes: Sequence[re.Pattern[str]]) -> None:
    def without(of: Mapping[str, Any]) -> dict[str, Any]:
        return {**of, "marks": [mark for mark in of.get("marks") or () if not _is_quote(mark, quotes)]}

    changed: dict[str, Any] = {"data": without(row.data)} | ({"event": without(row.event)} if row.event else {})
    tx.execute(update(messages).where(messages.c.id == row.id).values(changed))


def _decisions(tx: Tx, person_id: str) -> None:
    """What a person decided or answered to requests of others stays decided, without who it was and what he said."""
    for row in tx.execute(select(approvals).where(approvals.c.decided_by == person_id)).all():
        values = {"decided_by": None, "note": None, "answer": DELETED if row.kind == "question" else row.answer}
        tx.execute(update(approvals).where(approvals.c.id == row.id).values(values))
        if row.kind == "question":
            mine = calls.c.run_id == row.run_id, calls.c.step_key == row.step_key
            tx.execute(update(calls).where(*mine).values(result=DELETED))
    tx.execute(update(approvals).where(approvals.c.requester == person_id).values(requester=FORGOTTEN))
