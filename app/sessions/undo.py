"""Taking back: the last exchange by moving the head, and the rows of copies made before a turn's first writes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select, update

from app.db import Tx, insert_if_absent
from app.sessions import deposit
from app.tables import backups, calls, messages, sessions, turns


def take_back(tx: Tx, session_id: str) -> str | None:
    """Move the head before the last exchange; its first words, or None if there is none. Nothing is deleted.

    An exchange is all that one turn answered: the inputs, the words and calls, also those of turns it took over from.
    """
    row = _message(tx, tx.scalar(select(sessions.c.head_id).where(sessions.c.id == session_id)))
    while row is not None and row.role != "user":
        row = _message(tx, row.parent_id)
    if row is None:
        return None
    first = row
    while (row := _message(tx, row.parent_id)) is not None:
        if row.role == "user":
            if (row.answered_by, row.state) != (first.answered_by, first.state):
                break
            first = row
        elif first.answered_by is None:
            break  # stopped exchanges have no turn that holds them together
    deposit.move_head(tx, session_id, first.parent_id)
    text: str = first.text
    return text


def _message(tx: Tx, message_id: int | None) -> Any | None:
    columns = (messages.c.parent_id, messages.c.role, messages.c.state, messages.c.answered_by, messages.c.text)
    return tx.execute(select(*columns).where(messages.c.id == message_id)).first()


def last_runs(tx: Tx, session_id: str) -> list[str]:
    """The session's newest turn and the turns of the sub-agents it waited for."""
    run = tx.scalar(
        select(turns.c.run_id).where(turns.c.session_id == session_id).order_by(turns.c.run_id.desc()).limit(1)
    )
    if run is None:
        return []
    children = (
        select(turns.c.run_id)
        .join(sessions, sessions.c.id == turns.c.session_id)
        .join(calls, calls.c.child_key == sessions.c.key)
        .where(calls.c.run_id == run)
    )
    return [run, *tx.scalars(children).all()]


def is_kept(tx: Tx, run_id: str, path: str) -> bool:
    """Whether the run has looked after this path already."""
    return tx.scalar(select(backups.c.id).where(backups.c.run_id == run_id, backups.c.path == path)) is not None


def note_copy(tx: Tx, session_id: str, run_id: str, path: str, kept: str | None, now: datetime) -> None:
    """Note where the copy lies that was made before the run's first write; None: there was no file."""
    row = {"session_id": session_id, "run_id": run_id, "path": path, "kept": kept, "created_at": now}
    insert_if_absent(tx, backups, row)


def note_left(tx: Tx, run_id: str, path: str, digest: str) -> None:
    """Note what the file was when the run's newest write had ended."""
    tx.execute(update(backups).where(backups.c.run_id == run_id, backups.c.path == path).values(digest=digest))


def copies(tx: Tx, run_ids: Sequence[str]) -> Sequence[Any]:
    """Rows (path, kept, digest) of these runs, the newest first."""
    query = (
        select(backups.c.path, backups.c.kept, backups.c.digest)
        .where(backups.c.run_id.in_(run_ids))
        .order_by(backups.c.id.desc())
    )
    return tx.execute(query).all()
