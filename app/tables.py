"""The tables of the app database: what was said, what was done, what is to be delivered."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

# SQLite counts rowids only for INTEGER keys; everywhere else ids are 64 bits wide.
Id = BigInteger().with_variant(Integer, "sqlite")
Moment = DateTime(timezone=True)

SEARCH = "messages_search"
"""The full text index over messages (migration 0002): on SQLite an FTS5 table and its shadows, which SQLAlchemy
cannot describe, on PostgreSQL an index."""


def is_described(name: str | None, _kind: str, _parents: Any) -> bool:
    """For Alembic's comparison: whether what is called `name` in a database has a description here."""
    return name is None or not name.startswith(SEARCH)


def _some(name: str, column: str, which: str, *, unique: bool = False) -> Index:
    """An index of the few rows for which `which` holds: what is asked all the time takes no longer with the years."""
    return Index(name, column, sqlite_where=text(which), postgresql_where=text(which), unique=unique)


sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", Text, nullable=False),
    Column("parent_id", Text),
    Column("head_id", Id),
    Column("holder", Text, nullable=False, server_default=""),
    Column("created_at", Moment, nullable=False),
    Column("closed_at", Moment),
    Column("model", Text),
    Column("think", Text),
    Column("spoken", Boolean, nullable=False, server_default=text("false")),
    _some("sessions_open_key", "key", "closed_at IS NULL", unique=True),
    Index("sessions_key", "key"),
)

messages = Table(
    "messages",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("role", Text, nullable=False),
    Column("parent_id", Id),
    Column("attached", Boolean, nullable=False, server_default=text("false")),
    Column("text", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Column("message_key", Text, unique=True),
    Column("run_id", Text),
    Column("step_key", Text),
    Column("state", Text),
    Column("origin", Text),
    Column("answered_by", Text),
    Column("channel", Text),
    Column("destination", JSON),
    Column("channel_meta", JSON),
    Column("event", JSON),
    Column("event_sent_at", Moment),
    Column("wakes", Integer, nullable=False, server_default="0"),
    Column("sent_at", Text),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("run_id", "step_key", name="messages_step"),
    Index("messages_session", "session_id", "id"),
    _some("messages_open", "session_id", "state = 'open'"),
)

album_parts = Table(
    "album_parts",
    metadata,
    Column("message_key", Text, primary_key=True),
    Column("session_key", Text, nullable=False),
    Column("album", Text, nullable=False),
    Column("event", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("album_parts_album", "session_key", "album"),
)

turns = Table(
    "turns",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("message_key", Text),
    Column("origin", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("activity", Text, nullable=False, server_default="thinking"),
    Column("tool", Text),
    Column("iteration", Integer, nullable=False, server_default="0"),
    Column("boot_id", Text, nullable=False),
    Column("seen_at", Moment, nullable=False),
    Column("waiting_until", Moment),
    Column("replies_sent", Integer, nullable=False, server_default="0"),
    Column("error", Text),
    Column("started_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Column("settled_at", Moment),
    Column("event_id", Text),
    Column("outcome", Text),
    Column("summary", Text),
    Index("turns_session", "session_id", "started_at"),
    Index("turns_message", "message_key"),
    Index("turns_event", "event_id"),
    _some("turns_live", "session_id", "state = 'live'"),
)

calls = Table(
    "calls",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("message_id", Id, ForeignKey("messages.id"), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step_key", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("provider_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("effect", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("boot_id", Text),
    Column("seen_at", Moment),
    Column("ok", Boolean),
    Column("result", Text),
    Column("artifact", Text),
    Column("child_key", Text),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    UniqueConstraint("run_id", "step_key", name="calls_step"),
    Index("calls_session", "session_id", "message_id", "position"),
    _some("calls_started", "boot_id", "state = 'started'"),
    _some("calls_child", "child_key", "child_key IS NOT NULL"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("key", Text, nullable=False, unique=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("run_id", Text),
    Column("kind", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("chat_key", Text, nullable=False),
    Column("destination", JSON, nullable=False),
    Column("part", JSON, nullable=False),
    Column("text", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("boot_id", Text),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("not_before", Moment),
    Column("reason", Text),
    Column("receipt", JSON),
    Column("created_at", Moment, nullable=False),
    Column("sent_at", Moment),
    Index("deliveries_chat", "chat_key", "id"),
    Index("deliveries_session", "session_id", "id"),
    _some("deliveries_unsent", "state", "state = 'pending' OR state = 'sending'"),
)  # fmt: skip

usage = Table(
    "usage",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("step_key", Text, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("cost_usd", Float),
    Column("at", Moment, nullable=False),
    Column("state", Text, nullable=False, server_default="settled"),
    Index("usage_session", "session_id", "at"),
    Index("usage_day", "at"),
)

distillations = Table(
    "distillations",
    metadata,
    Column("log", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("at", Moment, nullable=False),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("request", JSON, nullable=False),
    Column("requester", Text),
    Column("state", Text, nullable=False),
    Column("answer", Text),
    Column("decided_by", Text),
    Column("note", Text),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("decided_at", Moment),
    UniqueConstraint("run_id", "step_key", name="approvals_step"),
    Index("approvals_session", "session_id", "state"),
    _some("approvals_pending", "created_at", "state = 'pending'"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step_key", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("model", Text),
    Column("state", Text, nullable=False),
    Column("due_at", Moment),
    Column("created_at", Moment, nullable=False),
    Column("ended_at", Moment),
    UniqueConstraint("run_id", "step_key", name="tasks_step"),
    Index("tasks_session", "session_id", "state"),
    _some("tasks_waiting", "created_at", "state = 'waiting'"),
)

backups = Table(
    "backups",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("kept", Text),
    Column("created_at", Moment, nullable=False),
    Column("digest", Text),
    UniqueConstraint("run_id", "path", name="backups_path"),
)

wakes = Table(
    "wakes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("session_key", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("step_key", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("cron", Text),
    Column("zone", Text, nullable=False),
    Column("rings", Boolean, nullable=False, server_default=text("false")),
    Column("chain", Integer, nullable=False, server_default="0"),
    Column("state", Text, nullable=False),
    Column("due_at", Moment, nullable=False),
    Column("signalled", Boolean, nullable=False, server_default=text("false")),
    Column("fired", Integer, nullable=False, server_default="0"),
    Column("fired_at", Moment),
    Column("channel", Text, nullable=False),
    Column("destination", JSON, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("ended_at", Moment),
    UniqueConstraint("run_id", "step_key", name="wakes_step"),
    Index("wakes_due", "state", "due_at"),
    Index("wakes_session", "session_key", "state"),
)

learnings = Table(
    "learnings",
    metadata,
    Column("id", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("seen", JSON, nullable=False),
    Column("count", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("first_at", Moment, nullable=False),
    Column("last_at", Moment, nullable=False),
    Index("learnings_state", "state", "count"),
)

notices = Table(
    "notices",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("key", Text, nullable=False, unique=True),
    Column("session_id", Text, ForeignKey("sessions.id"), nullable=False),
    Column("channel", Text, nullable=False),
    Column("destination", JSON, nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("told_at", Moment),
    Column("due_at", Moment),
    _some("notices_untold", "id", "told_at IS NULL"),
)

rounds = Table(
    "rounds",
    metadata,
    Column("name", Text, primary_key=True),
    Column("last_at", Moment, nullable=False),
    Column("next_at", Moment),
    Column("quiet", Integer, nullable=False, server_default="0"),
    Column("failures", Integer, nullable=False, server_default="0"),
    Column("note", Text),
)

observations = Table(
    "observations",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("task_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("step", Text),
    Column("source", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Column("at", Moment, nullable=False),
    UniqueConstraint("task_id", "key", name="observations_key"),
    Index("observations_task", "task_id", "id"),
)

supervision = Table(
    "supervision",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("owner_key", Text),
    Column("executor", Text, nullable=False),
    Column("limits", JSON, nullable=False),
    Column("retries", JSON, nullable=False),
    Column("retried_at", Moment),
    Column("asks", Integer, nullable=False, server_default="0"),
    Column("asked_at", Moment),
    Column("escalated_at", Moment),
    Column("next_check_at", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("supervision_due", "next_check_at"),
    Index("supervision_owner", "owner_key"),
)

people = Table(
    "people",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("name", Text),
    Column("username", Text),
    Column("language", Text),
    Column("timezone", Text),
    Column("session_key", Text, nullable=False),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("told_at", Moment),
    Column("created_at", Moment, nullable=False),
    Column("paired_at", Moment),
    Column("paired_by", Text),
    Index("people_state", "state"),
)

pairings = Table(
    "pairings",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("used_by", Text),
    Column("used_at", Moment),
)
