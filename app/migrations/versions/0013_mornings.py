"""What is kept for a morning knows which; what a task came to is in the ledger alone"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("notices") as batch_op:
        batch_op.add_column(sa.Column("due_at", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("tasks") as batch_op:
        batch_op.drop_column("result")


def downgrade() -> None:
    with op.batch_alter_table("tasks") as batch_op:
        batch_op.add_column(sa.Column("result", sa.Text(), nullable=True))
    with op.batch_alter_table("notices") as batch_op:
        batch_op.drop_column("due_at")
