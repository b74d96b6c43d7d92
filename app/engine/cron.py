"""Cron schedules as Inngest reads them: five fields, an optional `TZ=` prefix; pure."""

import functools
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from app.engine.clock import from_ms, to_ms
from app.engine.errors import BadCron

#: Where the latest of many instants is looked for: the last hour, day, month, and so on.
_WINDOWS_MS = tuple(hours * 3_600_000 for hours in (1, 24, 24 * 32, 24 * 367, 24 * 367 * 100))
_ZONE = re.compile(r"^(?:CRON_)?TZ=(\S+)\s+")


@dataclass(frozen=True)
class Cron:
    """A parsed schedule. `expression` is the text as registered."""

    expression: str
    _fields: str
    _zone: ZoneInfo

    @classmethod
    def parse(cls, expression: str) -> "Cron":
        """Parse a schedule; raises BadCron with the accepted form."""
        found = _ZONE.match(expression)
        name = found[1] if found else "UTC"
        try:
            zone = ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise BadCron(f"Cron '{expression}' names the time zone '{name}', which does not exist.") from None
        fields = (expression[found.end() :] if found else expression).split()
        if len(fields) != 5:
            raise BadCron(f"Cron '{expression}' must have exactly five fields: minute hour day month weekday.")
        if re.search(r"\b7\b", fields[4]):
            raise BadCron(f"Cron '{expression}' names weekday 7; weekdays go from 0 (Sunday) to 6.")
        schedule = cls(expression, " ".join("*" if field == "?" else field for field in fields), zone)
        try:
            schedule.next_ms(0)
        except CronSimError as error:
            raise BadCron(f"Cron '{expression}' is not accepted: {error}.") from None
        return schedule

    def next_ms(self, after_ms: int) -> int | None:
        """The first instant after `after_ms`, in milliseconds since 1970; None when there is none."""
        return _next_ms(self._fields, self._zone, after_ms)

    def last_ms(self, after_ms: int, until_ms: int) -> int | None:
        """The latest instant after `after_ms` and not after `until_ms`, however many there were."""
        for window_ms in _WINDOWS_MS:
            latest, instant = None, self.next_ms(max(after_ms, until_ms - window_ms))
            while instant is not None and instant <= until_ms:
                latest, instant = instant, self.next_ms(instant)
            if latest is not None or until_ms - window_ms <= after_ms:
                return latest
        return None


@functools.lru_cache(maxsize=64)
def _next_ms(fields: str, zone: ZoneInfo, after_ms: int) -> int | None:
    """Remembered, because whoever has just fired an instant asks for the next one twice."""
    moment: datetime | None = next(CronSim(fields, from_ms(after_ms).astimezone(zone)), None)
    return to_ms(moment.astimezone(UTC)) if moment else None
