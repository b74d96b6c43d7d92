"""The pure parts: ids, durations, cron, back-off, triggers, singleton."""

from datetime import UTC, datetime

import pytest

from app.engine.clock import from_ms, iso, parse_duration, parse_iso, to_ms
from app.engine.cron import Cron, _next_ms, _walks
from app.engine.errors import BadCron, BadFunction
from app.engine.functions import parse_function
from app.engine.ids import Ulids, app_uuid, decode_ulid, encode_ulid, job_name
from app.engine.policies.singleton import Decision, Singleton
from app.engine.retry import backoff_ms, interrupted_attempt, retry_at
from app.engine.triggers import Triggers


def ms(text: str) -> int:
    moment = parse_iso(text)
    assert moment is not None
    return moment


def test_ulids_grow_when_the_clock_goes_back() -> None:
    now = [1_000_000]
    ulids = Ulids(lambda: now[0])
    made = [ulids.new() for _ in range(100)]
    now[0] = 500_000
    made += [ulids.new() for _ in range(100)]
    now[0] = 2_000_000
    made += [ulids.new() for _ in range(100)]

    assert made == sorted(set(made))
    assert all(len(ulid) == 26 for ulid in made)


def test_ulids_grow_across_processes() -> None:
    earlier = Ulids(lambda: 2_000_000).new()

    assert Ulids(lambda: 1_000_000, floor=earlier).new() > earlier


def test_ulid_round_trip() -> None:
    assert encode_ulid(decode_ulid("01M8PND53WR8J5CG8K5KKBK7J2")) == "01M8PND53WR8J5CG8K5KKBK7J2"


def test_app_id_is_the_recorded_one() -> None:
    assert app_uuid("rec") == "3a884d6f-2b79-5ccb-ab1c-4a6df8a1957a"


def test_job_names_differ() -> None:
    assert len({job_name(number) for number in range(1, 1000)}) == 999


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8s", 8_000), ("1h30m", 5_400_000), ("2w", 1_209_600_000), ("500ms", 500), ("1.5s", 1_500),
        ("365d", 31_536_000_000), ("", None), ("90", None), ("-5m", None), ("5 m", None), ("m", None),
    ],
)  # fmt: skip
def test_durations(text: str, expected: int | None) -> None:
    assert parse_duration(text) == expected


def test_moments() -> None:
    assert iso(ms("2026-11-30T16:43:00Z")) == "2026-11-30T16:43:00Z"
    assert iso(ms("2026-11-30T16:43:00.120Z")) == "2026-11-30T16:43:00.120Z"
    assert parse_iso("soon") is None
    assert to_ms(from_ms(1_796_056_978_556)) == 1_796_056_978_556


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * *", "2026-11-30T16:42:30Z", "2026-11-30T16:43:00Z"),
        ("0 9 * * *", "2026-11-30T16:42:30Z", "2026-12-01T09:00:00Z"),
        ("TZ=Europe/Paris 0 9 * * *", "2026-11-30T16:42:30Z", "2026-12-01T08:00:00Z"),
        ("CRON_TZ=America/New_York 30 8 * * 1", "2026-11-30T16:42:30Z", "2026-12-07T13:30:00Z"),
        ("0 12 ? * 1-5", "2026-11-28T00:00:00Z", "2026-11-30T12:00:00Z"),
        # a time that the spring gap skips comes at the end of the gap, one that autumn repeats comes once
        ("TZ=Europe/Paris 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("TZ=Europe/Paris 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        ("0 0 29 2 *", "2026-11-30T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"),
        ("TZ=Europe/Paris 0 0 29 2 *", "2026-11-30T00:00:00Z", "2028-02-28T23:00:00Z"),
    ],
)
def test_cron(expression: str, after: str, expected: str) -> None:
    instant = Cron.parse(expression).next_ms(ms(after))

    assert instant is not None
    assert iso(instant) == expected


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"])
@pytest.mark.parametrize("fields", ["* * * * *", "30 2 * * *", "15,45 1-3 * * *", "0 */6 * * *", "10 2 29 3 *"])
def test_a_cron_that_goes_on_from_where_it_was_left_comes_to_the_same_as_one_that_begins_anew(
    zone: str, fields: str
) -> None:
    cron = Cron.parse(f"TZ={zone} {fields}")
    for begin in ("2026-03-07T20:00:00Z", "2026-03-28T20:00:00Z", "2026-04-04T08:00:00Z", "2026-10-31T20:00:00Z"):
        instant = ms(begin)
        for _ in range(300 if fields.startswith("*") else 12):
            following = cron.next_ms(instant)
            _walks.clear()
            _next_ms.cache_clear()
            assert following is not None and following == cron.next_ms(instant)
            instant = following


@pytest.mark.parametrize(
    "expression",
    ["@daily", "* * * *", "0 * * * * *", "TZ=Mars/Base * * * * *", "61 * * * *", "0 0 * * 7", "", "TZ=../e * * * * *"],
)
def test_bad_crons_name_the_reason(expression: str) -> None:
    with pytest.raises(BadCron, match="Cron '"):
        Cron.parse(expression)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("13 * *", [13]),
        ("* * 5", [2, 9, 16, 23, 30]),
        ("13 * 5", [2, 9, 13, 16, 23, 30]),
        ("? * 5", [2, 9, 16, 23, 30]),
        ("13 * ?", [13]),
        ("*/1 * 5", [2, 9, 16, 23, 30]),
        ("2,* * 5", [2, 9, 16, 23, 30]),
        # every tenth day is not every day: one of the two is enough
        ("*/10 * 5", [1, 2, 9, 11, 16, 21, 23, 30, 31]),
        ("13 * */3", [3, 4, 7, 10, 11, 13, 14, 17, 18, 21, 24, 25, 28, 31]),
        ("20/5 * *", [20, 25, 30]),
        ("* * 5/1", [2, 3, 9, 10, 16, 17, 23, 24, 30, 31]),
        ("* * 1/3", [1, 5, 8, 12, 15, 19, 22, 26, 29]),
        ("* * mon-wed/2,SUN", [4, 5, 7, 11, 12, 14, 18, 19, 21, 25, 26, 28]),
        ("* * sat/1", [3, 10, 17, 24, 31]),
        ("30-31 * *", [30, 31]),
    ],
)
def test_days_of_the_month_and_of_the_week(days: str, expected: list[int]) -> None:
    """In January 2026, whose first day is a Thursday."""
    cron, instant, found = Cron.parse(f"0 0 {days}"), ms("2025-12-31T12:00:00Z"), list[int]()
    while (instant := cron.next_ms(instant) or 0) < ms("2026-02-01T00:00:00Z"):
        found.append(from_ms(instant).day)

    assert found == expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("TZ=Mars/Base * * * * *", "time zone 'Mars/Base', which does not exist"),
        ("TZ= * * * * *", "time zone '', which does not exist"),
        ("TZ=America * * * * *", "time zone 'America', which does not exist"),
        ("0 0 L * *", "'L' is no day"),
        ("0 0 * * 5L", "'5L' is no day"),
        ("0 0 * * 1#2", "'1#2' is no day"),
        ("0 0 1,,2 * *", "'' is no day"),
        ("0 0 30 2 *", "day-of-month"),
        ("0 0 32 * *", "'32' is not within the days 1 to 31"),
        ("0 0 *,0 * *", "'0' is not within the days 1 to 31"),
        ("0 0 mon * *", "'mon' is no day"),
        ("0 0 * * 5-3", "'5-3' is not within the days 0 to 6"),
        ("0 0 * * 7", "'7' is not within the days 0 to 6"),
        ("0 0 */0 * *", "'\\*/0' is not within"),
    ],
)
def test_what_is_wrong_with_a_cron_is_named(expression: str, reason: str) -> None:
    with pytest.raises(BadCron, match=reason):
        Cron.parse(expression)


def test_missed_instants_are_counted() -> None:
    cron = Cron.parse("0 * * * *")

    assert cron.last_ms(ms("2026-01-01T00:30:00Z"), ms("2026-01-01T03:30:00Z")) == ms("2026-01-01T03:00:00Z")
    assert cron.last_ms(ms("2026-01-01T00:30:00Z"), ms("2026-01-01T00:40:00Z")) is None
    assert cron.last_ms(ms("1996-01-01T00:30:00Z"), ms("2026-01-01T00:40:00Z")) == ms("2026-01-01T00:00:00Z")
    yearly = Cron.parse("0 0 1 1 *")
    assert yearly.last_ms(ms("2026-01-01T00:00:00Z"), ms("2026-12-31T00:00:00Z")) is None
    assert yearly.last_ms(ms("2025-12-31T00:00:00Z"), ms("2026-12-31T00:00:00Z")) == ms("2026-01-01T00:00:00Z")


def test_backoff_follows_the_table() -> None:
    assert [backoff_ms(attempt, 0.0) // 1000 for attempt in range(12)] == [
        15, 30, 60, 120, 300, 600, 1200, 2400, 3600, 7200, 7200, 7200,
    ]  # fmt: skip
    assert backoff_ms(0, 0.5) == 30_000


def test_retry_after_is_a_floor_of_its_own() -> None:
    now = ms("2026-01-01T00:00:00Z")

    assert retry_at(now, 0, 0.0, "2026-01-01T00:00:03Z") == now + 3_000
    assert retry_at(now, 0, 0.0, "7") == now + 7_000
    assert retry_at(now, 0, 0.0, "2025-01-01T00:00:00Z") == now
    assert retry_at(now, 0, 0.0, "nonsense") == now + 15_000


def test_two_interruptions_are_free() -> None:
    assert [interrupted_attempt(0, count) for count in (1, 2, 3, 4)] == [0, 0, 1, 1]


def _function(slug: str, *patterns: str, **fields: object) -> object:
    step = {"step": {"id": "step", "name": "step", "runtime": {"type": "http", "url": "http://x/"}}}
    triggers = [{"event": pattern} for pattern in patterns]
    return parse_function("app", {"id": slug, "name": slug, "steps": step, "triggers": triggers, **fields})


@pytest.mark.parametrize(
    ("pattern", "name", "starts"),
    [
        ("app/a.b", "app/a.b", True),
        ("app/a.*", "app/a.b", True),
        ("app/a.*", "app/a.b.c", True),
        ("app/a.*", "app/ab", False),
        ("app/*", "app/a", True),
        ("app/*", "other/a", False),
        ("app*", "apple", False),
    ],
)
def test_wildcards(pattern: str, name: str, starts: bool) -> None:
    triggers = Triggers([_function("f", pattern)])  # type: ignore[list-item]

    assert bool(list(triggers.starts(name, {}, 0))) == starts


def test_two_matching_triggers_start_once() -> None:
    triggers = Triggers([_function("f", "a.b", "a.*")])  # type: ignore[list-item]

    assert len(list(triggers.starts("a.b", {}, 0))) == 1


def test_singleton_decisions() -> None:
    skip, cancel = Singleton("skip", None), Singleton("cancel", None)

    assert (skip.decide(False), skip.decide(True)) == (Decision.RUN, Decision.SKIP)
    assert (cancel.decide(False), cancel.decide(True)) == (Decision.RUN, Decision.CANCEL_ACTIVE)
    assert cancel.decide(True, 10) == Decision.SKIP
    assert cancel.decide(True, 1_000) == Decision.CANCEL_ACTIVE


@pytest.mark.parametrize(
    ("data", "key"),
    [({"k": "s"}, '"s"'), ({"k": 7}, "7"), ({"k": False}, None), ({"k": None}, None), ({}, None), ({"k": ""}, '""')],
)
def test_singleton_keys(data: dict[str, object], key: str | None) -> None:
    singleton = Singleton.parse({"key": "event.data.k", "mode": "cancel"})

    assert singleton.key({"data": data}, 0) == key


def test_a_bad_singleton_is_refused() -> None:
    with pytest.raises(BadFunction, match="must be 'skip' or 'cancel'"):
        _function("f", "e", singleton={"mode": "queue"})


def test_moment_without_zone_is_utc() -> None:
    assert from_ms(ms("2026-01-01T00:00:00")) == datetime(2026, 1, 1, tzinfo=UTC)
