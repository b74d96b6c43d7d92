"""Pictures of a group's album that wait for the one that calls the agent"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "album_parts",
        sa.Column("message_key", sa.Text(), nullable=False),
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("album", sa.Text(), nullable=False),
        sa.Column("event", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("message_key"),
    )
    op.create_index("album_parts_album", "album_parts", ["session_key", "album"])


def downgrade() -> None:
    op.drop_table("album_parts")
