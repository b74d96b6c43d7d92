"""What the engine asks of a clock, and the one unit it counts in: milliseconds since 1970 (UTC)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Protocol

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
#: The last moment that the calendar has in every zone; whatever lies beyond counts as this.
LATEST_MS = 253_402_214_400_000
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Clock(Protocol):
    """Tells the time and sleeps. The engine reads no other clock, so that a test can own the time."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock's time."""
        ...


def to_ms(moment: datetime) -> int:
    """Milliseconds since 1970 of an aware moment."""
    return round(moment.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    """The aware UTC moment of `ms` milliseconds since 1970, within the calendar."""
    ms = max(0, min(ms, LATEST_MS))
    return datetime.fromtimestamp(ms // 1000, UTC) + timedelta(milliseconds=ms % 1000)


def iso(ms: int) -> str:
    """The moment as Inngest writes it: `2026-11-30T16:43:00Z`, with milliseconds only if there are any."""
    text = from_ms(ms).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{ms % 1000:03d}Z" if ms % 1000 else f"{text}Z"


def parse_iso(text: str) -> int | None:
    """Milliseconds since 1970 of an ISO moment, or None when it is none; without a zone it counts as UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, min(to_ms(aware), LATEST_MS))


def parse_duration(text: str) -> int | None:
    """Milliseconds of a duration such as `8s`, `1h30m`, `2w`, `500ms`, or None when it is none; at most LATEST_MS."""
    total, end = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != end:
            return None
        total += float(part[1]) * _UNIT_MS[part[2]]
        end = part.end()
    return round(min(total, LATEST_MS)) if text and end == len(text) else None
