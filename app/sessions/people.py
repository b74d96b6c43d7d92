"""Who may talk to the agent: people and chats that were paired, and the one-time codes that pair them."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, delete, or_, select, update

from app.db import Tx, insert_if_absent
from app.events import wire_safe
from app.sessions.approvals import identity, speaker
from app.tables import pairings, people

OPERATORS = ("terminal", "http")
"""The channels that only whoever runs the service can use."""
CODE_FOR = timedelta(hours=1)
MAX_TRIES = 5
"""How many wrong codes of one stranger are looked at in a day."""
TOLD_AGAIN_AFTER = timedelta(days=1)
FORGOTTEN_AFTER = timedelta(days=30)


class State(StrEnum):
    """A stranger was told once that he is one; the settings let in who is listed; a revoked person stays outside
    whatever they say.
    """

    STRANGER = "stranger"
    LISTED = "listed"
    PAIRED = "paired"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Newcomer:
    """Who is written down: `id` is `channel:number` of a person or of a chat where several speak (`kind`)."""

    id: str
    kind: str
    session_key: str
    name: str | None = None
    username: str | None = None
    language: str | None = None

    @classmethod
    def person(cls, event: Any) -> "Newcomer":
        """Who speaks in an event."""
        sender = event.sender
        name, username = (sender.name, sender.username) if sender is not None else (None, None)
        language = event.channel_meta.get("languageCode")
        return cls(identity(event), "person", event.session_key, name, username, language)

    @classmethod
    def chat(cls, event: Any) -> "Newcomer":
        """Where an event was said."""
        return cls(chat_id(event), "chat", event.session_key, event.channel_meta.get("chatTitle"))


def chat_id(event: Any) -> str:
    return f"{event.channel}:{event.destination.chat_id}"


def _digest(code: str) -> str:
    return hashlib.sha256(f"pairing:{code}".encode()).hexdigest()


def add_code(tx: Tx, code: str, role: str, made_by: str, now: datetime) -> datetime:
    """Let `code` pair one person as `role` (admin or member); until when it is good. Kept as a digest only."""
    tx.execute(delete(pairings).where(pairings.c.expires_at < now - FORGOTTEN_AFTER))
    row = {"role": role, "made_by": made_by, "created_at": now, "expires_at": now + CODE_FOR}
    insert_if_absent(tx, pairings, {"digest": _digest(code)} | row)
    return now + CODE_FOR


def use_code(tx: Tx, code: str, who: Newcomer, now: datetime) -> bool:
    """Pair `who` if the code is good; it is good for nobody else then."""
    mine = (pairings.c.digest == _digest(code), pairings.c.used_by.is_(None), pairings.c.expires_at > now)
    found = tx.execute(select(pairings).where(*mine).with_for_update()).first()
    if found is None:
        return False
    tx.execute(update(pairings).where(*mine).values(used_by=who.id, used_at=now))
    pair(tx, who, found.role, found.made_by, now)
    return True


def is_expected(tx: Tx, code: str, now: datetime) -> bool:
    """Whether somebody may mean this code: it was one, or another one is good now, which may have been mistyped."""
    is_good = and_(pairings.c.used_by.is_(None), pairings.c.expires_at > now)
    query = select(pairings.c.digest).where(or_(pairings.c.digest == _digest(code), is_good)).limit(1)
    return tx.scalar(query) is not None


def pair(tx: Tx, who: Newcomer, role: str, by: str, now: datetime) -> None:
    """Let a person or a chat in, whatever they were before."""
    note(tx, who, State.STRANGER, now)
    values = {"state": State.PAIRED, "role": role, "paired_at": now, "paired_by": by, "tries": 0}
    tx.execute(update(people).where(people.c.id == who.id).values(values))


def note(tx: Tx, who: Newcomer, state: State, now: datetime) -> None:
    """Write a person down who is not known yet; of one who is known only name and language are renewed."""
    known = wire_safe({"name": who.name, "username": who.username, "language": who.language})
    row = {"id": who.id, "kind": who.kind, "state": state, "role": "member", "session_key": who.session_key}
    if not insert_if_absent(tx, people, row | known | {"created_at": now}) and any(known.values()):
        tx.execute(update(people).where(people.c.id == who.id).values(known | {"session_key": who.session_key}))


@dataclass(frozen=True)
class Principal:
    """Whose memory and files a session works with: the name of their folder, "" for the operator's own; and where he
    is in time, "" if he never said."""

    folder: str = ""
    zone: str = ""


def principal_of(tx: Tx, session_id: str, admins: Sequence[str]) -> Principal:
    """Of the session, or of the one that gave it its task: the person who speaks there, or the group."""
    event = speaker(tx, session_id)
    if event is None or event.channel in OPERATORS:
        return Principal()
    who = identity(event)
    known = find(tx, who)
    told = str(event.channel_meta.get("timezone") or "")
    zone = (known.timezone if known is not None else None) or told
    if event.channel_meta.get("group") or event.sender is None:
        return Principal(folder_of(chat_id(event)))
    is_admin = who in admins or (known is not None and known.state == State.PAIRED and known.role == "admin")
    return Principal("" if is_admin else folder_of(who), zone)


def folder_of(who: str) -> str:
    """The name of the folder of a person or group."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", who)
    return name if name.replace("-", ":", 1) == who else f"{name}-{hashlib.sha256(who.encode()).hexdigest()[:8]}"


def find(tx: Tx, person_id: str) -> Any | None:
    return tx.execute(select(people).where(people.c.id == person_id)).first()


def states(tx: Tx, ids: Sequence[str]) -> dict[str, str]:
    """The state of those of `ids` who are known."""
    rows = tx.execute(select(people.c.id, people.c.state).where(people.c.id.in_(ids))).all()
    return {row.id: row.state for row in rows}


def is_first_word(tx: Tx, person_id: str, now: datetime) -> bool:
    """Whether a stranger was told nothing today, and note that he is told now."""
    fresh = (people.c.id == person_id, (people.c.told_at.is_(None)) | (people.c.told_at <= now - TOLD_AGAIN_AFTER))
    return tx.execute(update(people).where(*fresh).values(told_at=now, tries=0)).rowcount > 0


def count_try(tx: Tx, person_id: str) -> None:
    """Count a code that was wrong."""
    tx.execute(update(people).where(people.c.id == person_id).values(tries=people.c.tries + 1))


def forget_strangers(tx: Tx, now: datetime) -> None:
    """Strangers of long ago are nobody."""
    old = (people.c.state == State.STRANGER, people.c.created_at < now - FORGOTTEN_AFTER)
    tx.execute(delete(people).where(*old))


def revoke(tx: Tx, person_id: str, now: datetime) -> None:
    """Shut a person or a chat out, also one whom only the settings let in."""
    note(tx, Newcomer(person_id, "person", person_id), State.REVOKED, now)
    tx.execute(update(people).where(people.c.id == person_id).values(state=State.REVOKED))


def readmit(tx: Tx, person_id: str) -> bool:
    """End that somebody is shut out: what the settings say of him, or a code, counts again. False if he was not."""
    shut = (people.c.id == person_id, people.c.state == State.REVOKED)
    return tx.execute(update(people).where(*shut).values(state=State.STRANGER)).rowcount > 0


def set_zone(tx: Tx, who: Newcomer, zone: str, now: datetime) -> None:
    note(tx, who, State.LISTED, now)
    tx.execute(update(people).where(people.c.id == who.id).values(timezone=zone))


def keep_told(tx: Tx, event: Any, now: datetime) -> None:
    """Keep the zone and the language that a platform tells of who speaks, once; a zone that is known stays."""
    zone = event.channel_meta.get("timezone")
    if not zone or event.sender is None:
        return
    who = Newcomer.person(event)
    known = find(tx, who.id)
    if known is None or not known.timezone:
        set_zone(tx, who, str(zone), now)


def admins(tx: Tx) -> tuple[str, ...]:
    """Paired people who may invite others and decide on requests."""
    query = select(people.c.id).where(people.c.state == State.PAIRED, people.c.role == "admin")
    return tuple(tx.scalars(query).all())


def listed(tx: Tx) -> Sequence[Any]:
    """Everybody who is known, strangers last."""
    query = select(people).order_by(people.c.state == State.STRANGER, people.c.created_at, people.c.id)
    rows: Sequence[Any] = tx.execute(query).all()
    return rows


def is_anybody_paired(tx: Tx, channel: str) -> bool:
    query = select(people.c.id).where(people.c.state == State.PAIRED, people.c.id.startswith(f"{channel}:"))
    return tx.scalar(query.limit(1)) is not None
