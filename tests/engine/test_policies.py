"""The decisions of the policies alone: configuration and facts in, decision out."""

from typing import Any

import pytest

from app.engine.errors import BadCron, BadExpression, BadFunction
from app.engine.functions import parse_function
from app.engine.policies.batch import Batch
from app.engine.policies.concurrency import Concurrency
from app.engine.policies.debounce import Debounce
from app.engine.policies.gcra import Rate
from app.engine.policies.jitter import offset_ms
from app.engine.policies.priority import Priority, place
from app.engine.policies.rate_limit import RateLimit
from app.engine.policies.throttle import Throttle
from app.engine.policies.timeouts import Timeouts, Verdict


def _event(**data: Any) -> dict[str, Any]:
    return {"name": "go", "data": data}


def _starts(rate: Rate, moments_ms: list[int]) -> list[bool]:
    tat, allowed = 0, []
    for now_ms in moments_ms:
        turn = rate.turn(now_ms * 1000, tat)
        allowed.append(turn.allowed)
        tat = turn.tat_us if turn.allowed else tat
    return allowed


def test_a_rate_of_one() -> None:
    assert _starts(Rate(1, 60_000, 1), [0, 1, 59_999, 60_000, 60_001]) == [True, False, False, True, False]


def test_a_rate_with_a_burst() -> None:
    rate = Rate(2, 6_000, 3)
    assert _starts(rate, [0, 0, 0, 0, 2_999, 3_000, 3_000, 9_000, 9_000]) == [
        True, True, True, False, False, True, False, True, True,
    ]  # fmt: skip


def test_the_next_turn_is_named() -> None:
    first = Rate(1, 10_000, 1).turn(5_000_000, 0)
    second = Rate(1, 10_000, 1).turn(6_000_000, first.tat_us)

    assert (second.allowed, second.at_us) == (False, 15_000_000)
    assert Rate(1, 10_000, 1).turn(second.at_us, first.tat_us).allowed


def test_an_idle_rate_saves_up_nothing_beyond_its_capacity() -> None:
    assert _starts(Rate(1, 1_000, 2), [0, 100_000, 100_000, 100_000]) == [True, True, True, False]


def test_inngests_rate_limit_lets_a_tenth_come_at_once() -> None:
    limit = RateLimit.parse({"limit": 10, "period": "100s"})

    assert _starts(limit.rate, [0, 0, 0, 10_000]) == [True, True, False, True]


def test_rate_limit_keys() -> None:
    limit = RateLimit.parse({"limit": 1, "period": "1m", "key": "event.data.k"})

    assert limit.key(_event(k="a"), 0) == '"a"'
    assert limit.key(_event(k=1), 0) != limit.key(_event(k="1"), 0)
    assert limit.key(_event(), 0) == "null", "a missing field is a key"
    assert limit.key(_event(k=False), 0) is None, "false leaves the event out"
    assert RateLimit.parse({"limit": 1, "period": "1m"}).key(_event(), 0) == ""


def test_idempotency_is_once_in_24_hours() -> None:
    once = RateLimit.idempotency("event.data.k")
    day = 86_400_000

    assert _starts(once.rate, [0, 1, day - 1, day]) == [True, False, False, True]


def test_throttle_capacity_is_limit_and_burst() -> None:
    throttle = Throttle.parse({"limit": 2, "period": "6s", "burst": 1})

    assert _starts(throttle.rate, [0, 0, 0, 0, 3_000]) == [True, True, True, False, True]
    assert Throttle.parse({"limit": 1, "period": "6s", "burst": None}).rate.capacity == 1


def test_debounce() -> None:
    debounce = Debounce.parse({"period": "2s", "timeout": "5s"})
    latest = debounce.latest_ms(1_000)

    assert latest == 6_000
    assert debounce.due_ms(1_000, latest) == 3_000
    assert debounce.due_ms(5_000, latest) == 6_000, "the time-out ends putting off"
    assert debounce.due_ms(9_000, latest) == 9_000, "never in the past"
    assert Debounce.parse({"period": "2s"}).latest_ms(1_000) is None
    assert debounce.wins(5, 5)
    assert not debounce.wins(4, 5), "an older event does not win"


def test_batch() -> None:
    batch = Batch.parse({"maxSize": 3, "timeout": "3s", "key": "event.data.k", "if": "event.data.free"})

    assert batch is not None
    assert batch.key(_event(k="a", free=True), 0) == '"a"'
    assert batch.key(_event(k="a", free=False), 0) is None
    assert [batch.is_full(events, 10) for events in (2, 3)] == [False, True]
    assert batch.is_full(2, 10_485_760), "the hard cap on its bytes"
    assert Batch.parse({"maxSize": 1, "timeout": "3s"}) is None


@pytest.mark.parametrize(
    ("source", "shift"),
    [
        ("event.data.n", 7), ("event.data.big", 600), ("event.data.small", -600), ("event.data.text", 0),
        ("event.data.missing", 0), ("event.data.plan == 'paid' ? 120 : 0", 120), ("true", 0), ("1.5", 0),
    ],
)  # fmt: skip
def test_priority(source: str, shift: int) -> None:
    priority = Priority.parse({"run": source})

    assert priority is not None
    assert priority.shift_s(_event(n=7, big=10_000, small=-10_000, text="x", plan="paid"), 0) == shift


def test_priority_shifts_the_place_by_seconds() -> None:
    assert place(100_000, 60) < place(50_000, 0)
    assert place(100_000, 0) < place(50_000, -60)


def test_concurrency_keys_and_scopes() -> None:
    (by_key,) = Concurrency.parse([{"limit": 1, "key": "event.data.k"}])
    (alone,) = Concurrency.parse(3)
    (account,) = Concurrency.parse({"limit": 1, "scope": "account", "key": "event.data.k"})
    (env,) = Concurrency.parse({"limit": 1, "scope": "env", "key": "event.data.k"})

    assert by_key.key("f", _event(k="a"), 0) != by_key.key("f", _event(k="b"), 0)
    assert by_key.key("f", _event(k="a"), 0) != by_key.key("g", _event(k="a"), 0)
    assert account.key("f", _event(k="a"), 0) == account.key("g", _event(k="a"), 0)
    assert account.key("f", _event(k="a"), 0) != env.key("f", _event(k="a"), 0)
    assert [alone.has_room(used) for used in (2, 3)] == [True, False]
    assert Concurrency.parse([{"limit": 0}]) == (), "no limit"


@pytest.mark.parametrize(
    ("config", "facts", "verdict"),
    [
        ({"start": "10s"}, (5_000, 0, None), Verdict(look_at_ms=10_000)),
        ({"start": "10s"}, (10_000, 0, None), Verdict("It did not start within 10 s.")),
        ({"start": "10s"}, (99_000, 0, 5_000), Verdict()),
        ({"finish": "2s"}, (0, 0, 0), Verdict(look_at_ms=2_000)),
        ({"finish": "2s"}, (2_000, 0, 0), Verdict("It did not finish within 2 s.")),
        ({"finish": "2s"}, (9_000, 0, None), Verdict(look_at_ms=11_000)),
        ({"start": "10s", "finish": "2s"}, (0, 0, None), Verdict(look_at_ms=2_000)),
        ({"start": "10s"}, (0, 60_000, None), Verdict(look_at_ms=70_000)),
    ],
)
def test_timeouts(config: dict[str, str], facts: tuple[int, int, int | None], verdict: Verdict) -> None:
    timeouts = Timeouts.parse(config)

    assert timeouts is not None
    assert timeouts.decide(*facts) == verdict


def test_jitter_is_the_same_for_the_same_instant() -> None:
    offsets = [offset_ms("f", instant * 60_000, 30_000) for instant in range(200)]

    assert offsets == [offset_ms("f", instant * 60_000, 30_000) for instant in range(200)]
    assert all(0 <= offset < 30_000 for offset in offsets)
    assert len(set(offsets)) > 150
    assert offset_ms("f", 0, 0) == 0


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"rateLimit": {"limit": 0, "period": "1m"}}, "rateLimit.limit must be a whole number"),
        ({"rateLimit": {"limit": 1, "period": "soon"}}, "rateLimit.period must be a duration"),
        ({"throttle": {"limit": 1}}, "throttle.period must be a duration"),
        ({"debounce": {"period": "x"}}, "debounce.period"),
        ({"batchEvents": {"maxSize": 0, "timeout": "1s"}}, "batchEvents.maxSize"),
        ({"batchEvents": {"maxSize": 2, "timeout": "1s"}, "debounce": {"period": "1s"}}, "exclude each other"),
        ({"concurrency": [{"limit": -1}]}, "concurrency.limit"),
        ({"concurrency": [{"limit": 1, "scope": "planet"}]}, "concurrency.scope"),
        ({"timeouts": {"start": "1 day"}}, "timeouts.start"),
        ({"cancel": [{"event": "stop", "timeout": "soon"}]}, "cancel.timeout must be a duration"),
    ],
)
def test_what_cannot_be_read_is_named(policy: dict[str, Any], reason: str) -> None:
    config = {"id": "app-f", "triggers": [{"event": "go"}], "steps": {"step": {}}, **policy}

    with pytest.raises(BadFunction, match=reason):
        parse_function("app", config)


@pytest.mark.parametrize(
    ("trigger", "kind"),
    [({"event": "go", "expression": "event.data.x >"}, BadExpression), ({"cron": "0 0 L * *"}, BadCron)],
)
def test_a_function_that_is_refused_is_named(trigger: dict[str, str], kind: type[Exception]) -> None:
    config = {"id": "app-f", "triggers": [trigger], "steps": {"step": {}}}

    with pytest.raises(kind, match=r"Function 'app-f' of app 'app': .* is not accepted"):
        parse_function("app", config)
