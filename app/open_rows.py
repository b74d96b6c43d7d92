"""What is open of each table: the conditions for which it has an index of these rows alone (`app/tables.py`).

The values are parts of the statements. SQLite prepares a statement anew for each execution if a value beside it decides
whether such an index can be used, which costs five times as much as the question itself.
"""

from sqlalchemy import ColumnElement, literal_column

from app.tables import approvals, calls, deliveries, messages, tasks, turns


def _constant(value: str) -> ColumnElement[str]:
    return literal_column(f"'{value}'")


MESSAGE_OPEN = messages.c.state == _constant("open")
TURN_LIVE = turns.c.state == _constant("live")
CALL_STARTED = calls.c.state == _constant("started")
PART_PENDING = deliveries.c.state == _constant("pending")
PART_SENDING = deliveries.c.state == _constant("sending")
APPROVAL_PENDING = approvals.c.state == _constant("pending")
TASK_WAITING = tasks.c.state == _constant("waiting")
