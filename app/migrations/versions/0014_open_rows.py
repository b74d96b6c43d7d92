"""What is open is found by an index of its own, however much there was before"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

OPEN = (
    ("turns_live", "turns", "session_id", "state = 'live'"),
    ("calls_started", "calls", "boot_id", "state = 'started'"),
    ("calls_child", "calls", "child_key", "child_key IS NOT NULL"),
    ("approvals_pending", "approvals", "created_at", "state = 'pending'"),
    ("tasks_waiting", "tasks", "created_at", "state = 'waiting'"),
)


def upgrade() -> None:
    op.drop_index("deliveries_unsent", table_name="deliveries")
    create("deliveries_unsent", "deliveries", "state", "state = 'pending' OR state = 'sending'")
    op.create_index("turns_event", "turns", ["event_id"])
    op.create_index("goals_created", "goals", ["created_at"])
    for name, table, column, which in OPEN:
        create(name, table, column, which)


def downgrade() -> None:
    for name, table, _, _ in OPEN:
        op.drop_index(name, table_name=table)
    op.drop_index("goals_created", table_name="goals")
    op.drop_index("turns_event", table_name="turns")
    op.drop_index("deliveries_unsent", table_name="deliveries")
    create("deliveries_unsent", "deliveries", "state", "state IN ('pending', 'sending')")


def create(name: str, table: str, column: str, which: str) -> None:
    op.create_index(name, table, [column], sqlite_where=sa.text(which), postgresql_where=sa.text(which))
