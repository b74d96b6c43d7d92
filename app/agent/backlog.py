"""What came in while nobody was there: the oldest is marked, and what is over a day old is asked about first."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select, update

from app.agent.announce import sent_at
from app.agent.harness import Harness
from app.db import Tx, moment
from app.open_rows import MESSAGE_OPEN
from app.sentences import Sentence
from app.tables import messages

MARK_AFTER = timedelta(hours=1)
ASK_AFTER = timedelta(hours=24)
MARK = "Sent on {at}; it could not be read before now."
QUESTION = Sentence(
    'While I was away, this came in: "{text}" ({which} {at}). Should I still answer it? Say "yes" if I should.'
)
SENT = Sentence("sent on")
LAST_OF = Sentence("the last of {count} messages, sent on")
SHOWN_CHARS = 80


def take_up(tx: Tx, harness: Harness, session_id: str) -> str:
    """Mark the oldest of the inputs that a turn takes up if it is late; the question to ask first, or nothing.

    Inputs are those open and shown. A person's newest one decides: whoever has just written is not asked.
    """
    now = harness.clock.now()
    said = [row for row in _taken_up(tx, session_id) if row.origin == "person"]
    if not said:
        return ""
    oldest, newest = said[0], said[-1]
    if now - _sent(oldest) > MARK_AFTER:
        mark = MARK.format(at=_shown(harness, oldest))
        if mark not in (marks := list(oldest.data.get("marks", ()))):
            data = dict(oldest.data) | {"marks": [*marks, mark]}
            tx.execute(update(messages).where(messages.c.id == oldest.id).values(data=data))
    if now - _sent(newest) <= ASK_AFTER:
        return ""
    flat = " ".join(newest.text.split()) or _files(newest.data)
    text = flat if len(flat) <= SHOWN_CHARS else flat[: SHOWN_CHARS - 1] + "…"
    which = LAST_OF.format(count=len(said)) if len(said) > 1 else SENT
    return QUESTION.format(text=text, which=which, at=_shown(harness, newest))


def _files(data: Mapping[str, Any]) -> str:
    """What came without words: a voice message is not listened to before somebody wants an answer to it."""
    return ", ".join(str(file.get("kind", "file")).replace("_", " ") for file in data.get("attachments") or ())


def _taken_up(tx: Tx, session_id: str) -> list[Any]:
    columns = (messages.c.id, messages.c.text, messages.c.data, messages.c.origin, messages.c.sent_at)
    query = select(*columns, messages.c.created_at).where(
        messages.c.session_id == session_id, MESSAGE_OPEN, messages.c.attached.is_(True)
    )
    return list(tx.execute(query.order_by(messages.c.id)).all())


def _sent(row: Any) -> datetime:
    return sent_at(row.sent_at, moment(row.created_at) or row.created_at)


def _shown(harness: Harness, row: Any) -> str:
    return f"{harness.daily_log.local(_sent(row)):%Y-%m-%d %H:%M}"
