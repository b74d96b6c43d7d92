"""How a turn left the files that it changed, and which event a turn was started by"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("backups") as batch_op:
        batch_op.add_column(sa.Column("digest", sa.Text(), nullable=True))
    with op.batch_alter_table("turns") as batch_op:
        batch_op.add_column(sa.Column("event_id", sa.Text(), nullable=True))
        batch_op.create_index("turns_message", ["message_key"])


def downgrade() -> None:
    with op.batch_alter_table("turns") as batch_op:
        batch_op.drop_index("turns_message")
        batch_op.drop_column("event_id")
    with op.batch_alter_table("backups") as batch_op:
        batch_op.drop_column("digest")
