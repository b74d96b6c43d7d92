"""Goals are watched over like other tasks; when a try began is in the ledger"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
DAY_S = 86_400
LIMITS = {
    "heartbeat_s": DAY_S,
    "stale_s": DAY_S,
    "nudge_s": DAY_S,
    "external_s": DAY_S // 4,
    "retries": 3,
    "asks": 3,
}

goals = sa.table(
    "goals",
    sa.column("id", sa.Text),
    sa.column("session_id", sa.Text),
    sa.column("created_at", MOMENT),
    sa.column("closed_at", MOMENT),
)
sessions = sa.table("sessions", sa.column("id", sa.Text), sa.column("key", sa.Text))
supervision = sa.table(
    "supervision",
    sa.column("task_id", sa.Text),
    sa.column("owner_key", sa.Text),
    sa.column("executor", sa.Text),
    sa.column("limits", sa.JSON),
    sa.column("retries", sa.JSON),
    sa.column("next_check_at", MOMENT),
    sa.column("created_at", MOMENT),
)


def upgrade() -> None:
    bind = op.get_bind()
    own = sa.select(goals.c.id, goals.c.created_at, sessions.c.key)
    own = own.join(sessions, sessions.c.id == goals.c.session_id, isouter=True)
    watched = sa.select(supervision.c.task_id)
    rows = [
        {"task_id": row.id, "owner_key": row.key, "next_check_at": row.created_at, "created_at": row.created_at}
        for row in bind.execute(own.where(goals.c.closed_at.is_(None), goals.c.id.not_in(watched)))
    ]
    common = {"executor": "pipeline", "limits": LIMITS, "retries": {}}
    if rows:
        bind.execute(sa.insert(supervision), [row | common for row in rows])
    with op.batch_alter_table("tries") as batch_op:
        batch_op.drop_column("begun_at")


def downgrade() -> None:
    with op.batch_alter_table("tries") as batch_op:
        batch_op.add_column(sa.Column("begun_at", MOMENT, nullable=True))
    op.execute(sa.text("DELETE FROM supervision WHERE executor = 'pipeline'"))
