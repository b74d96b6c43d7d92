"""A turn that is done again: it grows from where it once began, and takes the old one's place when it has an answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, or_, select, update

from app.db import Tx
from app.open_rows import MESSAGE_OPEN
from app.sessions import deposit, session, transcript
from app.sessions.calls import CallRecord, CallState
from app.tables import calls, messages

COPIED = "copied"
"""In place of a boot id: the result of a call was taken over from the turn that is done again."""


def head_for(tx: Tx, session_id: str, run_id: str, start: int | None, memo: int | None = None) -> int | None:
    """What the next thought of a run stands on, with everything open attached; a branch grows beside the transcript.

    `start` is where a branch begins, `memo` what an earlier step of the run said that it recorded.
    """
    if start is None:
        return deposit.attach_open(tx, session_id)
    return _own(tx, session_id, run_id) or memo or start


def _own(tx: Tx, session_id: str, run_id: str) -> int | None:
    query = select(func.max(messages.c.id)).where(messages.c.session_id == session_id, messages.c.run_id == run_id)
    found: int | None = tx.scalar(query)
    return found


def begin(tx: Tx, session_id: str, message_key: str, old_run: str) -> int | None:
    """Reopen what the old turn had closed; the head it began from, or the input itself if it never thought."""
    mine = or_(messages.c.answered_by == old_run, messages.c.message_key == message_key)
    inputs = (messages.c.session_id == session_id, messages.c.role == "user", mine)
    tx.execute(update(messages).where(*inputs).values(state="open", answered_by=None))
    newest: int | None = tx.scalar(select(func.max(messages.c.id)).where(*inputs, messages.c.attached.is_(True)))
    first = select(messages.c.parent_id).where(messages.c.session_id == session_id, messages.c.run_id == old_run)
    began: int | None = tx.scalar(first.order_by(messages.c.id).limit(1))
    if began is None:
        return newest
    # What came in while the old turn worked stands behind its first words: the new one begins behind it, too.
    chain = transcript.chain(tx, began)
    return began if newest is None or newest in chain else newest


def close_shown(tx: Tx, run_id: str, head: int | None, state: str) -> None:
    """Mark the open inputs that this branch has shown to the model; others of the session are not its business."""
    shown = transcript.chain(tx, head)
    tx.execute(
        update(messages)
        .where(messages.c.id.in_(shown), messages.c.role == "user", MESSAGE_OPEN)
        .values(state=state, answered_by=run_id)
    )


def take_place(tx: Tx, session_id: str, old_run: str, start: int, head: int) -> None:
    """Put the branch that ends at `head` in the place of the old turn: what was said after it stands behind the branch.

    If the old turn is not in the transcript any more (it was taken back), the transcript stays as it is.
    """
    old_end = _own(tx, session_id, old_run) or start
    chain = transcript.chain(tx, session.head_of(tx, session_id))
    if old_end not in chain or head == old_end:
        return
    place = chain.index(old_end)
    if place == len(chain) - 1:
        deposit.move_head(tx, session_id, head)
    else:
        tx.execute(update(messages).where(messages.c.id == chain[place + 1]).values(parent_id=head))


def take_over_call(tx: Tx, run_id: str, old_run: str, step_key: str, now: datetime) -> CallRecord | None:
    """A call of the old turn as one of this run, planned again; with it come its message and what else was called.

    The others keep their results, which are facts; those that this run asks for are planned again in their turn.
    """
    old = _call(tx, old_run, step_key)
    if old is None:
        return None
    if _call(tx, run_id, step_key) is None:
        _copy_message(tx, run_id, old, now)
    again = {"state": CallState.PLANNED, "boot_id": None, "ok": None, "result": None, "artifact": None}
    tx.execute(update(calls).where(calls.c.run_id == run_id, calls.c.step_key == step_key).values(again))
    return _record(tx, run_id, step_key)


def _call(tx: Tx, run_id: str, step_key: str) -> Any | None:
    return tx.execute(select(calls).where(calls.c.run_id == run_id, calls.c.step_key == step_key)).first()


def _record(tx: Tx, run_id: str, step_key: str) -> CallRecord | None:
    query = select(*CallRecord.columns()).where(calls.c.run_id == run_id, calls.c.step_key == step_key)
    row = tx.execute(query).first()
    return None if row is None else CallRecord.of(row)


def _copy_message(tx: Tx, run_id: str, old: Any, now: datetime) -> None:
    message = tx.execute(select(messages).where(messages.c.id == old.message_id)).one()
    columns = ("session_id", "role", "parent_id", "attached", "text", "data", "step_key")
    row = {name: getattr(message, name) for name in columns} | {"run_id": run_id, "created_at": now}
    copy: int = tx.execute(insert(messages).values(row).returning(messages.c.id)).scalar_one()
    for call in tx.execute(select(calls).where(calls.c.message_id == message.id).order_by(calls.c.position)).all():
        values = dict(call._mapping) | {"message_id": copy, "run_id": run_id, "boot_id": COPIED, "child_key": None}
        if call.result is None:
            values |= {"state": CallState.PLANNED, "boot_id": None}
        del values["id"]
        tx.execute(insert(calls).values(values))


def inputs_of(tx: Tx, message_key: str) -> Any | None:
    """(id, session_id, state, answered_by, data) of the input with this key."""
    columns: Sequence[Any] = (
        messages.c.id, messages.c.session_id, messages.c.state, messages.c.answered_by, messages.c.data,
    )  # fmt: skip
    return tx.execute(select(*columns).where(messages.c.message_key == message_key)).first()


def note_replay(tx: Tx, message: Any, replay: dict[str, Any]) -> None:
    """Keep with the input which run does it again, and from where, so that a second attempt says the same."""
    tx.execute(
        update(messages).where(messages.c.id == message.id).values(data=dict(message.data) | {"replay": replay})
    )  # fmt: skip
