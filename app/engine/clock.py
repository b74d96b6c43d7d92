"""What the engine asks of a clock, and the one unit it counts in: milliseconds since 1970 (UTC)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Protocol

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
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
    """The aware UTC moment of `ms` milliseconds since 1970."""
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
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def parse_duration(text: str) -> int | None:
    """Milliseconds of a duration such as `8s`, `1h30m`, `2w`, `500ms`, or None when it is none."""
    total, end = 0.0, 0
    for part in _PART.finditer(text):
        if part.start() != end:
            return None
        total += float(part[1]) * _UNIT_MS[part[2]]
        end = part.end()
    return round(total) if text and end == len(text) else None
