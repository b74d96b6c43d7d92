"""When a wake is due: schedules in a zone, also where the clocks change, and what is not accepted as one."""

from datetime import UTC, datetime, timedelta

import pytest

from app.errors import BadInput
from app.work.wakes import first_instant, next_instant

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def instants(cron: str, zone: str, start: datetime, count: int) -> list[str]:
    found: list[datetime] = [start]
    while len(found) <= count:
        following = next_instant(cron, zone, found[-1])
        assert following is not None
        found.append(following)
    return [f"{at:%m-%d %H:%M}" for at in found[1:]]


def test_a_schedule_follows_its_zone_over_a_change_of_the_clocks() -> None:
    """Cron fires in the wrong zone: nine in Paris is another hour of UTC from 29 March on."""
    start = datetime(2026, 3, 27, 12, tzinfo=UTC)
    assert instants("0 9 * * *", "Europe/Paris", start, 3) == ["03-28 08:00", "03-29 07:00", "03-30 07:00"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (datetime(2026, 3, 28, 12, tzinfo=UTC), ["03-29 01:00", "03-30 00:30"]),  # 02:30 does not exist that night
        (datetime(2026, 10, 24, 12, tzinfo=UTC), ["10-25 00:30", "10-26 01:30"]),  # 02:30 exists twice that night
    ],
)
def test_an_hour_that_is_left_out_or_repeated_fires_once(start: datetime, expected: list[str]) -> None:
    assert instants("30 2 * * *", "Europe/Paris", start, 2) == expected


def test_the_first_instant_is_the_next_one() -> None:
    assert first_instant("0 9 * * 1-5", "UTC", NOW) == datetime(2026, 1, 6, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "reason"),
    [
        ("every day", "UTC", "five fields"),
        ("* * * * 7", "UTC", "five fields"),
        ("61 * * * *", "UTC", "not a schedule"),
        ("@daily", "UTC", "accepted: minute hour"),
        ("* * * * *", "UTC", "at least 5 minutes"),
        ("0,1 9 * * *", "UTC", "at least 5 minutes"),
        ("0 9 * * *", "Mars/Base", "not a time zone"),
        ("0 9 30 2 *", "UTC", "not a schedule|no time within a year"),
        ("0 9 29 2 *", "UTC", "no time within a year"),
    ],
)
def test_what_is_not_accepted(cron: str, zone: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        first_instant(cron, zone, NOW)


def test_five_minutes_apart_is_accepted() -> None:
    assert first_instant("*/5 * * * *", "UTC", NOW) == NOW + timedelta(minutes=5)
