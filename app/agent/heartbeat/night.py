"""The night: hours in the user's zone in which work goes on and nothing is told. Pure."""

from datetime import datetime, time
from zoneinfo import ZoneInfo


def is_night(moment: datetime, zone: ZoneInfo, quiet: tuple[time, time] | None) -> bool:
    """Whether `moment` (aware) lies within the `quiet` hours of `zone`, which may go over midnight."""
    if quiet is None:
        return False
    begin, end = quiet
    local = moment.astimezone(zone).time()
    return begin <= local < end if begin <= end else local >= begin or local < end
