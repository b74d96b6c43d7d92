"""Time zones as people say them: a name, a city, a distance from UTC, or what their clock shows. Pure."""

import re
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

AREAS = ("Africa", "America", "Antarctica", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
AROUND = re.compile(
    r"(?:i'?m in|i am in|in|ich bin in|je suis à|à|estoy en|en|estou em|em)\s+(.+)|(.+?)\s+(?:time|here)|(.+)"
)
FROM_UTC = re.compile(r"(?:utc|gmt)(?:\s*([+-])\s*(\d{1,2})(?::?([0-5]\d))?)?")
CLOCK = re.compile(
    r"(?:it'?s|it is|es ist|il est|son las|são)?\s*(\d{1,2})[:.h](\d{2})\s*(am|pm)?\s*"
    r"(?:uhr)?\s*(?:here|hier|ici|aquí|aqui)?"
)
UNSURE_MINUTES, UNSURE_BETWEEN_HOURS = 10, 7
"""How far a clock may be from a whole hour's distance, or from one below: people read it a little early or late."""

BETWEEN_HOURS = {210: "Asia/Tehran", 270: "Asia/Kabul", 330: "Asia/Kolkata", 345: "Asia/Kathmandu", 390: "Asia/Yangon"}
"""Distances from UTC in minutes that are no whole hours, where one zone alone has them in which many people live."""

CHANGING = (
    *("Europe/London", "Europe/Berlin", "Europe/Athens", "America/New_York", "America/Chicago", "America/Denver"),
    *("America/Los_Angeles", "America/Anchorage", "America/Halifax", "America/Santiago", "America/Nuuk"),
    *("Atlantic/Azores", "Australia/Sydney", "Pacific/Auckland"),
)
"""One city for each of the clocks that are changed in summer."""


def zone_of(text: str, now: datetime) -> str | None:
    """The name of the zone that `text` can only mean; None if it means none, or more than one. `now` is aware."""
    said = " ".join(text.split()).strip(" .!")
    try:
        ZoneInfo(said)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        words = said.casefold().replace("\u2019", "'").replace("\u2212", "-")
        return _from_utc(words) or _by_clock(words, now) or _by_city(words)
    return said if said in available_timezones() else None


def _from_utc(words: str) -> str | None:
    found = FROM_UTC.fullmatch(words)
    if found is None:
        return None
    sign, hours, minutes = -1 if found[1] == "-" else 1, int(found[2] or 0), int(found[3] or 0)
    if minutes:
        return BETWEEN_HOURS.get(sign * (60 * hours + minutes))
    return _fixed(sign * hours) if -12 <= sign * hours <= 14 else None


def _by_clock(words: str, now: datetime) -> str | None:
    """A clock at UTC+13 shows the same as one at UTC-11, a day later: what may be either is neither."""
    found = CLOCK.fullmatch(words)
    if found is None or int(found[1]) > (12 if found[3] else 23) or int(found[2]) > 59:
        return None
    hour = int(found[1]) % 12 + (12 if found[3] == "pm" else 0) if found[3] else int(found[1])
    apart = ((hour - now.hour) * 60 + int(found[2]) - now.minute) % (24 * 60)
    near = min(BETWEEN_HOURS, key=lambda minutes: abs(apart - minutes))
    if abs(apart - near) <= UNSURE_BETWEEN_HOURS:
        return BETWEEN_HOURS[near]
    hours = round(apart / 60)
    if abs(apart - hours * 60) > UNSURE_MINUTES or hours % 24 in (12, 13, 14):
        return None
    return _fixed(hours % 24 if hours % 24 < 12 else hours % 24 - 24)


def _fixed(hours: int) -> str:
    """A zone without summer time. The names of these count westward."""
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def shown(zone: str) -> str:
    """A zone as people write it: a fixed one as its distance from UTC."""
    found = re.fullmatch(r"Etc/GMT([+-])(\d{1,2})", zone)
    return f"UTC{'+' if found[1] == '-' else '-'}{found[2]}" if found is not None else zone


def city_like(zone: str, now: datetime) -> str | None:
    """For a zone without summer time: a city whose clocks show the same now, and are changed in summer. None if there
    is none, and for a zone that is a city's itself.
    """
    if zone != "UTC" and not zone.startswith("Etc/"):
        return None
    apart = ZoneInfo(zone).utcoffset(now)
    alike = (one for one in CHANGING if ZoneInfo(one).utcoffset(now) == apart)
    city = next(alike, None)
    return city.rpartition("/")[2].replace("_", " ") if city is not None else None


def _by_city(words: str) -> str | None:
    found = AROUND.fullmatch(words)
    city = next((one for one in found.groups() if one), "") if found is not None else ""
    zones = _cities().get(city) or _cities().get(words) or ()
    clocks = {tuple(ZoneInfo(zone).utcoffset(datetime(2026, month, 1)) for month in (1, 7)) for zone in zones}
    return zones[0] if len(clocks) == 1 else None


@cache
def _cities() -> dict[str, tuple[str, ...]]:
    cities: dict[str, tuple[str, ...]] = {}
    for zone in sorted(available_timezones()):
        area, _, rest = zone.partition("/")
        if area in AREAS and rest:
            city = rest.rpartition("/")[2].replace("_", " ").casefold()
            cities[city] = (*cities.get(city, ()), zone)
    return cities
