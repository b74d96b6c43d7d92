"""What /status and /sessions say: where a conversation stands, in plain words from the records."""

from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from app.agent.delegation.task_list import describe
from app.agent.harness import Harness
from app.db import Tx, moment
from app.sessions import session, turns
from app.tables import approvals, messages, sessions, usage

MAX_LISTED = 10
MAX_TITLE_CHARS = 60


def status(tx: Tx, harness: Harness, session_id: str, session_key: str) -> str:
    """A line each for model, context, cost, the step in progress, and open work."""
    own = tx.execute(select(sessions.c.model, sessions.c.think).where(sessions.c.id == session_id)).one()
    think = f", thinking {own.think}" if own.think else ""
    lines = [
        f"Model: {own.model or harness.settings.model}{think}.",
        f"Messages in this conversation: {session.count_messages(tx, session_id)}. {_spent(tx, session_id)}",
        f"Now: {doing(turns.newest(tx, session_id), harness.clock.now())}.",
        *_open_work(tx, harness, session_id, session_key),
    ]
    older = len(_of_key(tx, session_key)) - 1
    if older > 0:
        lines.append(f"Earlier conversations: {older} (/sessions lists them).")
    return "\n".join(lines)


def doing(turn: Any | None, now: datetime) -> str:
    """What a turn's row says it does at the moment, and since when."""
    if turn is None or turn.state != "live":
        return "idle"
    tool = f" ({turn.tool})" if turn.tool else ""
    return f"{turn.activity}{tool}, step {turn.iteration + 1}, for {duration(now, turn.started_at)}"


def duration(now: datetime, since: Any) -> str:
    """Time that has passed, as people say it: 40 s, 4 min, 2 h 5 min."""
    seconds = max(0, int((now - (moment(since) or now)).total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def past_sessions(tx: Tx, harness: Harness, session_key: str) -> str:
    """The conversations of a key, the newest first, each with its first words."""
    rows = _of_key(tx, session_key)
    lines = []
    for row in rows[:MAX_LISTED]:
        begun = (moment(row.created_at) or harness.clock.now()).astimezone(harness.daily_log.zone)
        count = session.count_messages(tx, row.id)
        now = "now: " if row.closed_at is None else ""
        lines.append(f"- {now}since {begun:%Y-%m-%d %H:%M}, {count} messages{_title(tx, row.id)}")
    if len(rows) > MAX_LISTED:
        lines.append(f"- and {len(rows) - MAX_LISTED} older ones")
    return "\n".join(["Conversations here (/search finds what was said in them):", *lines])


def _of_key(tx: Tx, session_key: str) -> list[Any]:
    query = select(sessions.c.id, sessions.c.created_at, sessions.c.closed_at).where(sessions.c.key == session_key)
    return list(tx.execute(query.order_by(sessions.c.created_at.desc(), sessions.c.id.desc())).all())


def _title(tx: Tx, session_id: str) -> str:
    query = select(messages.c.text).where(messages.c.session_id == session_id, messages.c.role == "user")
    text = " ".join((tx.scalar(query.order_by(messages.c.id).limit(1)) or "").split())
    return f": {text[:MAX_TITLE_CHARS]}{'…' if len(text) > MAX_TITLE_CHARS else ''}" if text else ""


def _spent(tx: Tx, session_id: str) -> str:
    settled = (usage.c.session_id == session_id, usage.c.state == "settled")
    last = tx.execute(
        select(usage.c.input_tokens, usage.c.output_tokens).where(*settled).order_by(usage.c.at.desc()).limit(1)
    ).first()
    if last is None:
        return "Context: nothing was sent to the model yet."
    cost = tx.scalar(select(func.sum(usage.c.cost_usd)).where(*settled))
    spent = f"${cost:.4f}" if cost is not None else "unknown (no price for this model)"
    return f"Context: about {last.input_tokens + last.output_tokens} tokens. Cost so far: {spent}."


def _open_work(tx: Tx, harness: Harness, session_id: str, session_key: str) -> list[str]:
    lines = [f"Task {line}" for line in describe(tx, harness, session_key)]
    waiting = tx.execute(
        select(approvals.c.tool).where(approvals.c.session_id == session_id, approvals.c.state == "pending")
    ).all()
    return lines + [f"Waiting for your answer: {row.tool}" for row in waiting]
