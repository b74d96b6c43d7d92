"""The night: hours in the user's zone in which work goes on and nothing is told. Pure."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo


def is_night(moment: datetime, zone: ZoneInfo, quiet: tuple[time, time] | None) -> bool:
    """Whether `moment` (aware) lies within the `quiet` hours of `zone`, which may go over midnight."""
    if quiet is None:
        return False
    begin, end = quiet
    local = moment.astimezone(zone).time()
    return begin <= local < end if begin <= end else local >= begin or local < end


def night_end(moment: datetime, zone: ZoneInfo, quiet: tuple[time, time] | None) -> datetime:
    """When the night in which `moment` (aware) lies is over in `zone`, in UTC; `moment` itself where there is none."""
    if quiet is None:
        return moment
    local = moment.astimezone(zone)
    day = local.date() if local.time() < quiet[1] else local.date() + timedelta(days=1)
    return datetime.combine(day, quiet[1], zone).astimezone(UTC)
