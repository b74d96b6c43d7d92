"""The ledger of tracked tasks, and who watches over them"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "observations",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("task_id", "key", name="observations_key"),
    )
    with op.batch_alter_table("observations") as batch_op:
        batch_op.create_index("observations_task", ["task_id", "id"])
    op.create_table(
        "supervision",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("owner_key", sa.Text(), nullable=True),
        sa.Column("executor", sa.Text(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=False),
        sa.Column("retries", sa.JSON(), nullable=False),
        sa.Column("retried_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("asks", sa.Integer(), server_default="0", nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("escalated_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_check_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("task_id"),
    )
    with op.batch_alter_table("supervision") as batch_op:
        batch_op.create_index("supervision_due", ["next_check_at"])
        batch_op.create_index("supervision_owner", ["owner_key"])


def downgrade() -> None:
    op.drop_table("supervision")
    op.drop_table("observations")
