"""Reading the durations of policies."""

from collections.abc import Mapping
from typing import Any

from app.engine.clock import parse_duration
from app.engine.errors import BadFunction


def duration_ms(policy: str, config: Mapping[str, Any], field: str, *, required: bool = True) -> int | None:
    """Milliseconds of a field such as `period: 10s`; raises BadFunction, naming the field and the form."""
    value = config.get(field)
    if not value and not required:
        return None
    length = parse_duration(str(value)) if value else None
    if not length:
        raise BadFunction(f"{policy}.{field} must be a duration such as '10s' or '5m', not {value!r}.")
    return length


def count(policy: str, config: Mapping[str, Any], field: str) -> int:
    """A whole number from 1 up; raises BadFunction."""
    value = config.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadFunction(f"{policy}.{field} must be a whole number from 1 up, not {value!r}.")
    return value
