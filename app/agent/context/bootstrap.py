"""What a turn begins with knowing: goals, what changed since the last turn here, the next wake, the heartbeat."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, bindparam, exists, func, or_, select

from app.agent.harness import Harness
from app.db import Tx, moment
from app.goal_tables import goals, tries
from app.sessions import people
from app.tables import rounds, sessions, turns, wakes
from app.work import ledger
from app.work.projection import Truth
from app.work.wakes import next_instant

ENDS = {Truth.COMPLETED: "done", Truth.ABANDONED: "cancelled"}
MAX_GOALS = 12
SHOWN = 3
MAX_CHARS = 560
TITLE_CHARS = 60

TITLE = "How things stand as this turn begins, from the records:"


IS_TOLD = or_(
    bindparam("whole", type_=Boolean()),
    goals.c.session_id.in_(select(sessions.c.id).where(sessions.c.key == bindparam("key"))),
)
"""Whether a goal is of those that a conversation knows of: its own, and where it is the operator's, all."""


def _facts() -> Any:
    """One row: the last beat, when the last turn of the session ended, its next wake, open goals."""
    beat = rounds.c.name == "beat"
    ended = (
        select(turns.c.ended_at)
        .where(turns.c.session_id == bindparam("session"), turns.c.ended_at.is_not(None))
        .order_by(turns.c.started_at.desc())
        .limit(1)
    )
    due = select(func.min(wakes.c.due_at)).where(wakes.c.session_key == bindparam("key"), wakes.c.state == "open")
    count = select(func.count()).select_from(goals).where(goals.c.closed_at.is_(None), IS_TOLD)
    return select(
        select(rounds.c.last_at).where(beat).scalar_subquery().label("last_beat"),
        ended.scalar_subquery().label("ended"),
        due.scalar_subquery().label("wake"),
        count.scalar_subquery().label("goals"),
    )


def _goals() -> Any:
    """Goals that are open, who goes first first, and behind them those that ended since a moment."""
    own = tries.c.goal_id == goals.c.id
    running = exists().where(own, tries.c.run_id.is_not(None), tries.c.ended_at.is_(None))
    return (
        select(
            goals.c.id,
            goals.c.facts["title"].as_string().label("title"),
            goals.c.created_at,
            goals.c.closed_at,
            running.label("running"),
        )
        .where(or_(goals.c.closed_at.is_(None), goals.c.closed_at > bindparam("since")), IS_TOLD)
        .order_by(goals.c.closed_at.is_not(None), goals.c.rank, goals.c.created_at, goals.c.id)
        .limit(MAX_GOALS)
    )


FACTS = _facts()
GOALS = _goals()


def standing(tx: Tx, harness: Harness, session_id: str, session_key: str) -> str:
    """The block, at most MAX_CHARS long; empty where there is nothing to tell yet. Two queries if there are no goals.

    The operator and admins are told of all goals, everybody else of those of his conversation.
    """
    facts, rows = _records(tx, harness, session_id, session_key, True)
    if rows and people.principal_of(tx, session_id, harness.settings.approval_admins).folder:
        facts, rows = _records(tx, harness, session_id, session_key, False)
    since = _moment(facts.ended)
    lines = [*_goal_lines(rows, facts.goals), *_changes(tx, harness, rows, since)]
    if (wake := _moment(facts.wake)) is not None:
        lines.append(f"Next wake of this conversation: {_local(harness, wake)}.")
    if (last := _moment(facts.last_beat)) is not None:
        following = next_instant(harness.settings.beat_cron, harness.settings.timezone, harness.clock.now())
        then = f", next {harness.daily_log.local(following):%H:%M}" if following is not None else ""
        lines.append(f"Heartbeat: last {_local(harness, last)}{then}.")
    return _cut("\n".join([TITLE, *lines]), MAX_CHARS) if lines else ""


def _records(tx: Tx, harness: Harness, session_id: str, key: str, whole: bool) -> tuple[Any, Sequence[Any]]:
    """The row of FACTS, and those of GOALS since the session's last turn."""
    facts = tx.execute(FACTS, {"session": session_id, "key": key, "whole": whole}).one()
    since = _moment(facts.ended) or harness.clock.now()
    return facts, tx.execute(GOALS, {"since": since, "key": key, "whole": whole}).all()


def _goal_lines(rows: Sequence[Any], count: int) -> list[str]:
    still_open = [row for row in rows if row.closed_at is None]
    active = [row for row in still_open if row.running]
    pending = [row for row in still_open if not row.running]
    lines = [f"Active goals: {_named(active)}."] if active else []
    if pending:
        lines.append(f"Pending goals ({count - len(active)}): {_named(pending)}.")
    return lines


def _changes(tx: Tx, harness: Harness, rows: Sequence[Any], since: datetime | None) -> list[str]:
    """What is new, and how what ended did, by its observations."""
    if since is None:
        return []
    news = {"new": [row for row in rows if row.closed_at is None and (_moment(row.created_at) or since) > since]}
    for row in rows:
        if row.closed_at is not None:
            news.setdefault(ENDS.get(ledger.derived(tx, row.id).truth_state, "failed"), []).append(row)
    told = "; ".join(f"{what} {_named(found)}" for what, found in news.items() if found)
    return [f"Since your last turn here ({_local(harness, since)}): {told}."] if told else []


def _named(rows: Sequence[Any]) -> str:
    names = [f"{row.id} {_cut(' '.join(str(row.title).split()), TITLE_CHARS)}" for row in rows[:SHOWN]]
    return ", ".join(names) + (f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")


def _moment(value: Any) -> datetime | None:
    """A moment out of an expression, which SQLite gives as text."""
    return moment(datetime.fromisoformat(value) if isinstance(value, str) else value)


def _local(harness: Harness, at: datetime) -> str:
    return f"{harness.daily_log.local(at):%Y-%m-%d %H:%M}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
