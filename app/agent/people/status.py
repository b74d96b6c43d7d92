"""What /status and /sessions say: where a conversation stands, in plain words from the records."""

from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from app.agent.delegation.task_list import describe
from app.agent.harness import Harness
from app.db import Tx, moment
from app.open_rows import APPROVAL_PENDING
from app.sentences import Sentence, say
from app.sessions import session, turns
from app.tables import approvals, messages, sessions, usage

MAX_LISTED = 10
MAX_TITLE_CHARS = 60
ACTIVITIES = (Sentence("thinking"), Sentence("tool"), Sentence("listening"))


def status(tx: Tx, harness: Harness, session_id: str, session_key: str, language: str = "") -> str:
    """A line each for model, context, cost, the step in progress, and open work."""
    own = tx.execute(select(sessions.c.model, sessions.c.think).where(sessions.c.id == session_id)).one()
    model = own.model or harness.settings.model
    count = session.count_messages(tx, session_id)
    what = doing(turns.newest(tx, session_id), harness.clock.now(), language)
    lines = [
        say("Model: {model}.", language, model=model)
        if not own.think
        else say("Model: {model}, thinking {level}.", language, model=model, level=own.think),
        say("Messages in this conversation: {count}.", language, count=count) + f" {_spent(tx, session_id, language)}",
        say("Now: {what}.", language, what=what),
        *_open_work(tx, harness, session_id, session_key, language),
    ]
    older = len(_of_key(tx, session_key)) - 1
    if older > 0:
        lines.append(say("Earlier conversations: {count} (/sessions lists them).", language, count=older))
    return "\n".join(lines)


def doing(turn: Any | None, now: datetime, language: str = "") -> str:
    """What a turn's row says it does at the moment, and since when."""
    if turn is None or turn.state != "live":
        return say("idle", language)
    what = activity(turn, language)
    what = f"{what} ({turn.tool})" if turn.tool else what
    since = duration(now, turn.started_at)
    return say("{what}, step {step}, for {duration}", language, what=what, step=turn.iteration + 1, duration=since)


def activity(turn: Any, language: str) -> str:
    """What a turn does; behind a comma stands how far it is."""
    what, comma, share = str(turn.activity).partition(",")
    return f"{say(what, language)}{comma}{share}"


def duration(now: datetime, since: Any) -> str:
    """Time that has passed, as people say it: 40 s, 4 min, 2 h 5 min."""
    seconds = max(0, int((now - (moment(since) or now)).total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def past_sessions(tx: Tx, harness: Harness, session_key: str, language: str = "") -> str:
    """The conversations of a key, the newest first, each with its first words."""
    rows = _of_key(tx, session_key)
    lines = []
    for row in rows[:MAX_LISTED]:
        begun = (moment(row.created_at) or harness.clock.now()).astimezone(harness.daily_log.zone)
        count = session.count_messages(tx, row.id)
        values = {"begun": f"{begun:%Y-%m-%d %H:%M}", "count": count}
        is_open = row.closed_at is None
        said = say("since {begun}, {count} messages", language, **values)
        said = say("now: since {begun}, {count} messages", language, **values) if is_open else said
        lines.append(f"- {said}{_title(tx, row.id)}")
    if len(rows) > MAX_LISTED:
        lines.append(f"- {say('and {count} older ones', language, count=len(rows) - MAX_LISTED)}")
    return "\n".join([say("Conversations here (/search finds what was said in them):", language), *lines])


def _of_key(tx: Tx, session_key: str) -> list[Any]:
    query = select(sessions.c.id, sessions.c.created_at, sessions.c.closed_at).where(sessions.c.key == session_key)
    return list(tx.execute(query.order_by(sessions.c.created_at.desc(), sessions.c.id.desc())).all())


def _title(tx: Tx, session_id: str) -> str:
    query = select(messages.c.text).where(messages.c.session_id == session_id, messages.c.role == "user")
    text = " ".join((tx.scalar(query.order_by(messages.c.id).limit(1)) or "").split())
    return f": {text[:MAX_TITLE_CHARS]}{'…' if len(text) > MAX_TITLE_CHARS else ''}" if text else ""


def _spent(tx: Tx, session_id: str, language: str) -> str:
    settled = (usage.c.session_id == session_id, usage.c.state == "settled")
    last = tx.execute(
        select(usage.c.input_tokens, usage.c.output_tokens).where(*settled).order_by(usage.c.at.desc()).limit(1)
    ).first()
    if last is None:
        return say("Context: nothing was sent to the model yet.", language)
    cost = tx.scalar(select(func.sum(usage.c.cost_usd)).where(*settled))
    spent = f"${cost:.4f}" if cost is not None else say("unknown (no price for this model)", language)
    tokens = last.input_tokens + last.output_tokens
    return say("Context: about {tokens} tokens. Cost so far: {cost}.", language, tokens=tokens, cost=spent)


def _open_work(tx: Tx, harness: Harness, session_id: str, session_key: str, language: str) -> list[str]:
    lines = [say("Task {line}", language, line=line) for line in describe(tx, harness, session_key, language)]
    waiting = tx.execute(select(approvals.c.tool).where(approvals.c.session_id == session_id, APPROVAL_PENDING)).all()
    return lines + [say("Waiting for your answer: {tool}", language, tool=row.tool) for row in waiting]
