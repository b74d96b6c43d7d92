"""Wakes, learnings, what is kept for the morning, rounds of the heartbeat, and how a turn ended"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0004"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "wakes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("step_key", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("cron", sa.Text(), nullable=True),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("rings", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("chain", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_at", MOMENT, nullable=False),
        sa.Column("signalled", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("fired", sa.Integer(), server_default="0", nullable=False),
        sa.Column("fired_at", MOMENT, nullable=True),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("destination", sa.JSON(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("ended_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_id", "step_key", name="wakes_step"),
    )
    op.create_index("wakes_due", "wakes", ["state", "due_at"])
    op.create_index("wakes_session", "wakes", ["session_key", "state"])
    op.create_table(
        "learnings",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("seen", sa.JSON(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("first_at", MOMENT, nullable=False),
        sa.Column("last_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("learnings_state", "learnings", ["state", "count"])
    op.create_table(
        "notices",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("destination", sa.JSON(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("told_at", MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    untold = sa.text("told_at IS NULL")
    op.create_index("notices_untold", "notices", ["id"], sqlite_where=untold, postgresql_where=untold)
    op.create_table(
        "rounds",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("last_at", MOMENT, nullable=False),
        sa.Column("next_at", MOMENT, nullable=True),
        sa.Column("quiet", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.add_column("turns", sa.Column("outcome", sa.Text(), nullable=True))
    op.add_column("turns", sa.Column("summary", sa.Text(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("turns") as batch_op:
        batch_op.drop_column("summary")
        batch_op.drop_column("outcome")
    for name in ("rounds", "notices", "learnings", "wakes"):
        op.drop_table(name)
