"""Cron schedules as Inngest reads them: five fields, an optional `TZ=` prefix; pure."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from app.engine.clock import from_ms, to_ms
from app.engine.errors import BadCron

#: Where the latest of many instants is looked for: the last hour, day, month, and so on.
_WINDOWS_MS = tuple(hours * 3_600_000 for hours in (1, 24, 24 * 32, 24 * 367, 24 * 367 * 100))
_ZONE = re.compile(r"^(?:CRON_)?TZ=(\S*)\s+")
#: Every day, a day, or the days from one to another; each with an optional step.
_TERM = re.compile(r"^(?:(?P<every>[*?])|(?P<begin>\w+)(?:-(?P<end>\w+))?)(?:/(?P<step>[0-9]+))?$", re.ASCII)
_WEEKDAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}


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
        minute, hour, month_day, month, weekday = fields
        try:
            days = _days(month_day, range(1, 32), {}), _days(weekday, range(7), _WEEKDAYS)
            schedule = cls(expression, " ".join((minute, hour, days[0], month, days[1])).replace("?", "*"), zone)
            schedule.next_ms(0)
        except (CronSimError, ValueError) as error:
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


def _days(field: str, all_days: range, names: Mapping[str, int]) -> str:
    """A field of days as a list of numbers, or `*`. Raises ValueError.

    Of the two fields of days both must match if one of them says "every day", else one is enough; every second day is
    not every day.
    """
    found, every = set[int](), False
    for text in field.split(","):
        days, is_every = _term(text, all_days, names)
        found |= set(days)
        every |= is_every
    return "*" if every else ",".join(str(day) for day in sorted(found))


def _term(text: str, all_days: range, names: Mapping[str, int]) -> tuple[range, bool]:
    """The days of one term, and whether it says "every day"; a step without an end goes on to the last day."""
    term = _TERM.match(text)
    if term is None:
        raise ValueError(f"'{text}' is no day")
    step = int(term["step"] or 1)
    if term["every"]:
        begin, end = all_days[0], all_days[-1]
    else:
        begin = _day(term["begin"], names)
        end = _day(term["end"], names) if term["end"] else all_days[-1] if term["step"] else begin
    if step == 0 or begin > end or begin not in all_days or end not in all_days:
        raise ValueError(f"'{text}' is not within the days {all_days[0]} to {all_days[-1]}")
    return range(begin, end + 1, step), bool(term["every"]) and step == 1


def _day(text: str, names: Mapping[str, int]) -> int:
    if text.upper() in names:
        return names[text.upper()]
    if not text.isdecimal():
        raise ValueError(f"'{text}' is no day")
    return int(text)


_walks: dict[tuple[str, ZoneInfo, int], CronSim] = {}
"""Where schedules were left, by their last instant: most often the one after that is asked for next."""
_MAX_WALKS = 64


@functools.lru_cache(maxsize=64)
def _next_ms(fields: str, zone: ZoneInfo, after_ms: int) -> int | None:
    """Remembered, because whoever has just fired an instant asks for the next one twice."""
    walk = _walks.pop((fields, zone, after_ms), None) or CronSim(fields, from_ms(after_ms).astimezone(zone))
    moment: datetime | None = next(walk, None)
    if moment is None:
        return None
    instant = to_ms(moment.astimezone(UTC))
    if len(_walks) >= _MAX_WALKS:
        _walks.clear()
    _walks[fields, zone, instant] = walk
    return instant
