"""How values look on a page: moments, durations, JSON; pure functions of what they are given."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

CUT_CHARS = 8_000
"""How much of one value a page shows; a step's own page shows all."""

HIDDEN = "***"


def hidden(text: str, secrets: Sequence[str]) -> str:
    """`text` without the values that must never be shown."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def pretty(value: Any) -> str:
    """Text as it is, unless it is a JSON object or list; everything else as indented JSON."""
    if isinstance(value, str):
        if value[:1] not in "{[" or not value:
            return value
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def cut(text: str, limit: int = CUT_CHARS) -> str:
    """The beginning of a long text, with what is missing named."""
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters"


def moment(value: datetime | str | None) -> datetime | None:
    """A moment, aware; SQLite forgets the zone, which is UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def clock_time(value: datetime | str | None, zone: tzinfo, now: datetime) -> str:
    """`14:03:21` today, else with the date."""
    at = moment(value)
    if at is None:
        return ""
    local = at.astimezone(zone)
    same_day = local.date() == now.astimezone(zone).date()
    return local.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S")


def seconds_between(start: datetime | str | None, end: datetime | str | None) -> float | None:
    first, last = moment(start), moment(end)
    return None if first is None or last is None else max(0.0, (last - first).total_seconds())


def duration(seconds: float | None) -> str:
    """`12 ms`, `3.4 s`, `2 min 5 s`, `3 h 10 min`, `2 d 4 h`."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, name, part, part_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {name}" + (f" {rest} {part_name}" if rest else "")
    return f"{whole} s"


def sentence(error: Any) -> str:
    """An error as an application answered it, in one line."""
    if isinstance(error, dict):
        name, message = error.get("name"), error.get("message") or error.get("error")
        return ": ".join(str(part) for part in (name, message) if part) or pretty(error)
    return "" if error is None else str(error)
