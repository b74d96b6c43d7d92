"""Runs the migrations on the connection that `app.migrate` hands over."""

from alembic import context

from app import goal_tables  # noqa: F401 - adds its tables to the metadata
from app.tables import is_described, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    include_name=is_described,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
