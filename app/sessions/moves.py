"""A chat that got another number (a group of Telegram that became a supergroup): all that is kept of it moves along."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Table, delete, select, update

from app.db import Tx, insert_if_absent
from app.open_rows import PART_PENDING
from app.sessions import deposit, session
from app.sessions.people import State, folder_of
from app.tables import (
    album_parts,
    approvals,
    deliveries,
    distillations,
    messages,
    notices,
    people,
    sessions,
    supervision,
    wakes,
)

PLACED = (messages, deliveries, notices, wakes, approvals)
"""Tables of sessions in whose JSON stands where an answer goes."""
JSON_COLUMNS = ("destination", "event", "request")
KEYED = ((wakes, "session_key"), (album_parts, "session_key"), (supervision, "owner_key"))


@dataclass(frozen=True)
class Move:
    """From the number `old` of a channel's chat to the number `new`."""

    channel: str
    old: str
    new: str

    @property
    def ids(self) -> tuple[str, str]:
        """The old and the new id of the chat as `people` has them."""
        return f"{self.channel}:{self.old}", f"{self.channel}:{self.new}"

    def key(self, session_key: str) -> str:
        """The key that a session has now: `channel:account:chat` and, if there is one, `:thread`."""
        channel, *rest = session_key.split(":")
        return ":".join((channel, *(self.new if part == self.old else part for part in rest)))

    def value(self, value: Any) -> Any:
        """JSON with the new number. A message's number means nothing in the new chat, so answers name none."""
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if not isinstance(value, Mapping):
            return value
        moved = {name: self.value(one) for name, one in value.items()}
        if isinstance(moved.get("sessionKey"), str):
            moved["sessionKey"] = self.key(moved["sessionKey"])
        if moved.get("chatId") == self.old:
            moved = {name: one for name, one in moved.items() if name != "messageId"} | {"chatId": self.new}
        return moved


def move(tx: Tx, chat: Move, is_listed: bool, now: datetime) -> list[dict[str, Any]]:
    """Give everything the new number; start signals for what is to be answered there. Done before, it changes nothing.

    A turn at work is taken over by one that knows the new number. `is_listed`: the settings let in the old one, which
    for the new one is a row of `people` then.
    """
    moved = _sessions(tx, chat)
    for table in PLACED:
        for row in tx.execute(select(table).where(table.c.session_id.in_([one.id for one in moved]))).all():
            _rewrite(tx, table, row, chat)
    for table, name in KEYED:
        for row in tx.execute(select(table).where(table.c[name].contains(f":{chat.old}", autoescape=True))).all():
            changed = {name: chat.key(getattr(row, name))}
            changed |= {"event": chat.value(row.event)} if table is album_parts else {}
            tx.execute(update(table).where(*_same(table, row)).values(changed))
    _deliveries(tx, chat)
    _admitted(tx, chat, is_listed, now)
    _logs(tx, chat)
    signals = [_moved_session(tx, row, chat, now) for row in moved]
    return [signal for signal in signals if signal is not None]


def _sessions(tx: Tx, chat: Move) -> list[Any]:
    found = sessions.c.key.startswith(f"{chat.channel}:", autoescape=True), sessions.c.key.contains(f":{chat.old}")
    rows = tx.execute(select(sessions.c.id, sessions.c.key, sessions.c.closed_at).where(*found)).all()
    return [row for row in rows if chat.key(row.key) != row.key]


def _moved_session(tx: Tx, row: Any, chat: Move, now: datetime) -> dict[str, Any] | None:
    """The session under its new key. Where one is open there already, what is to be answered goes to that one."""
    key, target = chat.key(row.key), row.id
    if row.closed_at is None:
        session.release(tx, row.id, now)
        newer = session.find(tx, key)
        if newer is not None:
            deposit.carry_over(tx, row.id, newer, 0)
            session.close(tx, row.id, now)
            target = newer
    tx.execute(update(sessions).where(sessions.c.id == row.id).values(key=key))
    return deposit.wake_next(tx, target) if row.closed_at is None else None


def _rewrite(tx: Tx, table: Table, row: Any, chat: Move) -> None:
    names = [name for name in JSON_COLUMNS if name in table.c and getattr(row, name)]
    changed = {name: chat.value(getattr(row, name)) for name in names}
    if any(changed[name] != getattr(row, name) for name in names):
        tx.execute(update(table).where(*_same(table, row)).values(changed))


def _same(table: Table, row: Any) -> list[Any]:
    return [column == getattr(row, column.name) for column in table.primary_key]


def _deliveries(tx: Tx, chat: Move) -> None:
    """What is to be sent goes to the new chat; what would have changed a message of the old one is said anew."""
    old, new = chat.ids
    waiting = deliveries.c.chat_key == old, PART_PENDING
    for row in tx.execute(select(deliveries.c.id, deliveries.c.part).where(*waiting)).all():
        part = {name: value for name, value in row.part.items() if name not in ("edit", "preview")}
        tx.execute(update(deliveries).where(deliveries.c.id == row.id).values(part=part))
    for row in tx.execute(select(deliveries).where(deliveries.c.chat_key == old)).all():
        _rewrite(tx, deliveries, row, chat)
    tx.execute(update(deliveries).where(deliveries.c.chat_key == old).values(chat_key=new))


def _admitted(tx: Tx, chat: Move, is_listed: bool, now: datetime) -> None:
    """Who was let in, or shut out, is so under the new number."""
    old, new = chat.ids
    known = tx.execute(select(people).where(people.c.id == old)).first()
    if known is not None:
        tx.execute(delete(people).where(people.c.id == new))
        moved = {"id": new, "session_key": chat.key(known.session_key)}
        tx.execute(update(people).where(people.c.id == old).values(moved))
    elif is_listed:
        row = {"id": new, "kind": "chat", "state": State.PAIRED, "role": "member", "session_key": new}
        insert_if_absent(tx, people, row | {"created_at": now, "paired_at": now, "paired_by": old})


def _logs(tx: Tx, chat: Move) -> None:
    """The notes that are in MEMORY.md already are named by the folder they lie in."""
    old, new = (f"{folder_of(one)}/" for one in chat.ids)
    for log in tx.scalars(
        select(distillations.c.log).where(distillations.c.log.startswith(old, autoescape=True))
    ).all():
        name = new + log.removeprefix(old)
        tx.execute(delete(distillations).where(distillations.c.log == name))
        tx.execute(update(distillations).where(distillations.c.log == log).values(log=name))
