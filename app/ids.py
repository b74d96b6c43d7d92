"""New identifiers that sort by time."""

from ulid import ULID

from app.clock import Clock


def new_id(clock: Clock) -> str:
    """A ULID (26 characters, sorts by the clock's time)."""
    return str(ULID.from_datetime(clock.now()))
