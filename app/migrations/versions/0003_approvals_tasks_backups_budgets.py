"""Approvals, tasks, copies for /undo, reserved usage, a session's own model"""

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:

    op.create_table('approvals',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('session_id', sa.Text(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('step_key', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('tool', sa.Text(), nullable=False),
    sa.Column('digest', sa.Text(), nullable=False),
    sa.Column('request', sa.JSON(), nullable=False),
    sa.Column('requester', sa.Text(), nullable=True),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('answer', sa.Text(), nullable=True),
    sa.Column('decided_by', sa.Text(), nullable=True),
    sa.Column('note', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('expires_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('decided_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['session_id'], ['sessions.id'], ),
    sa.PrimaryKeyConstraint('id'),
    sa.UniqueConstraint('run_id', 'step_key', name='approvals_step')
    )
    with op.batch_alter_table('approvals', schema=None) as batch_op:
        batch_op.create_index('approvals_session', ['session_id', 'state'], unique=False)

    op.create_table('backups',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), autoincrement=True, nullable=False),
    sa.Column('session_id', sa.Text(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('path', sa.Text(), nullable=False),
    sa.Column('kept', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['session_id'], ['sessions.id'], ),
    sa.PrimaryKeyConstraint('id'),
    sa.UniqueConstraint('run_id', 'path', name='backups_path')
    )
    op.create_table('tasks',
    sa.Column('id', sa.Text(), nullable=False),
    sa.Column('session_id', sa.Text(), nullable=False),
    sa.Column('run_id', sa.Text(), nullable=False),
    sa.Column('step_key', sa.Text(), nullable=False),
    sa.Column('mode', sa.Text(), nullable=False),
    sa.Column('task', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=True),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('due_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('result', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('ended_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['session_id'], ['sessions.id'], ),
    sa.PrimaryKeyConstraint('id'),
    sa.UniqueConstraint('run_id', 'step_key', name='tasks_step')
    )
    with op.batch_alter_table('tasks', schema=None) as batch_op:
        batch_op.create_index('tasks_session', ['session_id', 'state'], unique=False)

    with op.batch_alter_table('sessions', schema=None) as batch_op:
        batch_op.add_column(sa.Column('model', sa.Text(), nullable=True))
        batch_op.add_column(sa.Column('think', sa.Text(), nullable=True))

    with op.batch_alter_table('usage', schema=None) as batch_op:
        batch_op.add_column(sa.Column('state', sa.Text(), server_default='settled', nullable=False))
        batch_op.create_index('usage_day', ['at'], unique=False)
        batch_op.create_index('usage_session', ['session_id', 'at'], unique=False)




def downgrade() -> None:

    with op.batch_alter_table('usage', schema=None) as batch_op:
        batch_op.drop_index('usage_session')
        batch_op.drop_index('usage_day')
        batch_op.drop_column('state')

    with op.batch_alter_table('sessions', schema=None) as batch_op:
        batch_op.drop_column('think')
        batch_op.drop_column('model')

    with op.batch_alter_table('tasks', schema=None) as batch_op:
        batch_op.drop_index('tasks_session')

    op.drop_table('tasks')
    op.drop_table('backups')
    with op.batch_alter_table('approvals', schema=None) as batch_op:
        batch_op.drop_index('approvals_session')

    op.drop_table('approvals')

