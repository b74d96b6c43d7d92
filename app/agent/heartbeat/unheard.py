"""Messages that were woken as often as may be and that nobody answered all the same: their senders are told once."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from app.agent.harness import Harness
from app.agent.heartbeat.telling import tell
from app.channels import outbox
from app.db import Tx
from app.open_rows import MESSAGE_OPEN
from app.sentences import TRY_AGAIN, UNHEARD, say
from app.sessions import session, turns
from app.sessions.deposit import MAX_WAKES
from app.tables import messages, sessions

AFTER = timedelta(minutes=30)
"""A start signal that waits its turn in a busy engine may come late."""


def tell_unheard(tx: Tx, harness: Harness, session_key: str | None) -> list[dict[str, Any]]:
    """One plain notice for each conversation with such messages of a person; the events that send them.

    The messages stay open: whatever is said next is answered together with them. A turn that has begun is still tried
    by its engine, and tells of its end itself.
    """
    now = harness.clock.now()
    forgotten = (
        select(func.max(messages.c.id))
        .join(sessions, sessions.c.id == messages.c.session_id)
        .where(
            MESSAGE_OPEN,
            messages.c.origin == "person",
            messages.c.channel.is_not(None),
            messages.c.wakes >= MAX_WAKES,
            messages.c.created_at <= now - AFTER,
            sessions.c.closed_at.is_(None),
        )
        .group_by(messages.c.session_id)
    )
    if session_key is not None:
        forgotten = forgotten.where(sessions.c.key == session_key)
    query = select(messages, sessions.c.holder).join(sessions, sessions.c.id == messages.c.session_id)
    events = []
    for row in tx.execute(query.where(messages.c.id.in_(forgotten))).all():
        turn = turns.newest(tx, row.session_id)
        if (turn is None or turn.state != "live") and not session.is_live(tx, row.holder, now):
            language = outbox.language_of(tx, row.session_id)
            text = f"{say(UNHEARD, language)} {say(TRY_AGAIN, language)}"
            events += tell(tx, harness, f"unheard/{row.id}", row.session_id, row, text, critical=True)
    return events
