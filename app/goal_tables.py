"""The tables of work that goes on by itself: goals, the tries of their steps, and the files that were seen."""

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, Integer, Table, Text

from app.tables import Moment, metadata

goals = Table(
    "goals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("template", JSON, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("digest", Text),
    Column("rank", Integer, nullable=False),
    Column("session_id", Text, ForeignKey("sessions.id")),
    Column("created_at", Moment, nullable=False),
    Column("closed_at", Moment),
    Index("goals_open", "closed_at", "rank", "created_at"),
    Index("goals_digest", "digest"),
    Index("goals_created", "created_at"),
)

tries = Table(
    "tries",
    metadata,
    Column("goal_id", Text, ForeignKey("goals.id"), primary_key=True),
    Column("step", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("run_id", Text),
    Column("due_at", Moment, nullable=False),
    Column("ended_at", Moment),
    Index("tries_open", "ended_at", "due_at"),
)

seen_files = Table(
    "seen_files",
    metadata,
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("seen_at", Moment, nullable=False),
)
