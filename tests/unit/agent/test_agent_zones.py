"""A zone as people say it is understood where it can mean only one."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from app.agent.people.zones import CHANGING, city_like, shown, zone_of

NOW = datetime(2026, 12, 1, 12, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("Europe/Paris", "Europe/Paris"),
        ("Paris", "Europe/Paris"),
        (" berlin. ", "Europe/Berlin"),
        ("Berlin time", "Europe/Berlin"),
        ("I'm in New York", "America/New_York"),
        ("Ich bin in Berlin", "Europe/Berlin"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("UTC", "UTC"),
        ("UTC+2", "Etc/GMT-2"),
        ("gmt -03:00", "Etc/GMT+3"),
        ("UTC+5:30", "Asia/Kolkata"),
        ("UTC+5:20", None),
        ("UTC-5:30", None),
        ("UTC+15", None),
        ("it's 14:30 here", "Etc/GMT-2"),
        ("14:30", "Etc/GMT-2"),
        ("2:30 pm", "Etc/GMT-2"),
        ("es ist 13:25 Uhr", "Etc/GMT-1"),
        ("7:28", "Etc/GMT+5"),
        ("0:30", None),
        ("1:28", None),
        ("17:58", "Asia/Kolkata"),
        ("18:13", "Asia/Kathmandu"),
        ("22:00", None),
        ("25:00", None),
        ("13:30 pm", None),
        ("what is in Paris today", None),
        ("Remind me at 14:30", None),
        ("Tallinn or Riga", None),
        ("hello", None),
        ("../etc/passwd", None),
        ("", None),
    ],
)
def test_a_zone_is_what_the_words_can_only_mean(text: str, zone: str | None) -> None:
    assert zone_of(text, NOW) == zone


# A clock alone tells a distance, not whether the clocks are changed in summer.
@pytest.mark.parametrize(
    ("zone", "city", "words"),
    [
        ("Etc/GMT-1", "Berlin", "UTC+1"),
        ("Etc/GMT+5", "New York", "UTC-5"),
        ("UTC", "London", "UTC"),
        ("Etc/GMT-8", None, "UTC+8"),
        ("Europe/Berlin", None, "Europe/Berlin"),
        ("Asia/Kolkata", None, "Asia/Kolkata"),
    ],
)
def test_for_a_zone_without_summer_time_a_city_is_named_that_has_one(zone: str, city: str | None, words: str) -> None:
    assert (city_like(zone, NOW), shown(zone)) == (city, words)


def test_every_city_that_is_named_is_understood() -> None:
    for zone in CHANGING:
        city = zone.rpartition("/")[2].replace("_", " ")
        assert zone_of(city, NOW) == zone
        assert len({ZoneInfo(zone).utcoffset(datetime(2026, month, 1, tzinfo=UTC)) for month in (1, 7)}) == 2
