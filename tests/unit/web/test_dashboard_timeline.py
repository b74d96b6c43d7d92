"""How a run becomes a timeline, and how values look; without a service."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from app.web import shown
from app.web.records import CallNote, ThoughtNote, TurnNotes, UsageNote
from app.web.timeline import Item, notes_id, timeline, unsafe_calls
from tests.unit.web.dashboard_desk import run_row, step_row

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def a_run(seconds: float | None = 10) -> dict[str, Any]:
    return run_row(createdAt=at(0), startedAt=at(0), endedAt=None if seconds is None else at(seconds))


def a_step(name: str, begin: float, end: float | None, **changes: Any) -> dict[str, Any]:
    ended = None if end is None else at(end)
    return step_row(name, createdAt=at(begin), startedAt=at(begin), endedAt=ended, **changes)


def a_call(key: str, name: str = "bash", effect: str = "unsafe", state: str = "finished") -> CallNote:
    return CallNote(key, name, "{}", effect, state, True, "done", None, None, None, None)


def bars(item: Item) -> list[tuple[float, float, str]]:
    return [(bar.x, bar.width, bar.kind) for bar in item.bars]


def test_bars_stand_where_their_time_is() -> None:
    steps = [a_step("receive", 0, 1), a_step("think", 5, 10)]
    first, second = timeline(a_run(), steps, TurnNotes(), START)
    assert (bars(first), first.seconds) == ([(0, 10, "completed")], 1)
    assert (bars(second), second.seconds) == ([(50, 50, "completed")], 5)


def test_failed_attempts_are_bars_of_their_own() -> None:
    failure = {"attempt": 0, "startedAt": at(0), "endedAt": at(2), "error": {}}
    [good] = timeline(a_run(), [a_step("a", 4, 5, failures=[failure])], TurnNotes(), START)
    assert bars(good) == [(0, 20, "failed"), (40, 10, "completed")]
    [bad] = timeline(a_run(), [a_step("a", 0, 2, failures=[failure], status="Failed")], TurnNotes(), START)
    assert bars(bad) == [(0, 20, "failed")]


def test_an_open_step_grows_to_now_and_a_short_one_can_be_seen() -> None:
    now = START + timedelta(seconds=20)
    steps = [a_step("a", 20, 20), a_step("b", 10, None, status="Open"), a_step("c", 19, None, op="Sleep")]
    short, open_one, sleeping = timeline(a_run(None), steps, TurnNotes(), now)
    assert bars(short) == [(99.4, 0.6, "completed")]
    assert bars(open_one) == [(50, 50, "open")]
    assert (bars(sleeping)[0][2], sleeping.kind) == ("waiting", "wait")


def test_memos_that_a_replay_kept_stand_at_its_beginning() -> None:
    [kept] = timeline(a_run(), [a_step("receive", -500, -499)], TurnNotes(), START)
    assert bars(kept) == [(0, 0.6, "completed")]
    assert kept.seconds == 1


def test_thoughts_and_calls_are_found_by_their_order() -> None:
    names = ("receive", "think", "tool-bash", "tool-read", "think", "wait", "think", "tool-bash", "think", "finish")
    keys = ("tool#0.0", "tool#0.1", "tool#2.0")
    notes = TurnNotes(
        thoughts={f"think#{n}": ThoughtNote(f"thought {n}", "m", False) for n in (0, 2, 3)},
        calls={key: a_call(key) for key in keys},
        usage={"think#1": UsageNote("m", 1, 2, None)},
    )
    items = timeline(a_run(), [a_step(name, 0, 1) for name in names], notes, START)
    assert [item.thought.text for item in items if item.thought] == ["thought 0", "thought 2", "thought 3"]
    assert items[4].thought is None and items[4].usage is not None
    assert [item.call.step_key for item in items if item.call] == list(keys)


def test_a_replay_reads_the_records_of_the_turn_that_it_repeats() -> None:
    assert notes_id([a_step("receive", 0, 1, output={"run_id": "01A"})], "01B") == "01A"
    assert notes_id([a_step("receive", 0, 1, output={"kind": "crashed"})], "01B") == "01B"
    assert notes_id([a_step("look", 0, 1, output=None)], "01B") == "01B"


def test_only_unsafe_calls_from_the_step_on_are_named() -> None:
    names = ("think", "tool-bash", "tool-read", "tool-edit")
    notes = TurnNotes(
        calls={
            "tool#0.0": a_call("tool#0.0"),
            "tool#0.1": a_call("tool#0.1", effect="read"),
            "tool#0.2": a_call("tool#0.2", state="planned"),
        }
    )
    items = timeline(a_run(), [a_step(name, 0, 1) for name in names], notes, START)
    assert [call.step_key for call in unsafe_calls(items, None)] == ["tool#0.0"]
    assert unsafe_calls(items, "hash-tool-read") == []
    assert [call.step_key for call in unsafe_calls(items, "gone")] == ["tool#0.0"]


def test_what_a_run_took_in_all() -> None:
    assert TurnNotes().spent is None
    some = TurnNotes(usage={"think#0": UsageNote("m", 10, 2, 0.5), "think#1": UsageNote("m", 1, 1, None)}).spent
    assert some is not None
    assert (some.input_tokens, some.output_tokens, some.cost_usd) == (11, 3, 0.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""), (0, "0 ms"), (0.0123, "12 ms"), (3.44, "3.4 s"), (60, "1 min"), (125, "2 min 5 s"),
        (7_260, "2 h 1 min"), (180_000, "2 d 2 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert shown.duration(seconds) == text


def test_moments_are_told_in_the_readers_zone_and_with_the_date_when_it_is_not_today() -> None:
    paris = ZoneInfo("Europe/Paris")
    assert shown.clock_time("2026-01-05T11:00:00+00:00", paris, START) == "12:00:00"
    assert shown.clock_time(datetime(2026, 1, 4, 11), paris, START) == "2026-01-04 12:00:00"
    assert shown.clock_time(None, paris, START) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"), ("", ""), ('{"a": "ü"}', '{\n  "a": "ü"\n}'), ("{broken", "{broken"), (None, "null"),
        ([1], "[\n  1\n]"), ("[" * 100_000, "[" * 100_000),
    ],
)  # fmt: skip
def test_values_are_shown_as_text_or_indented_json(value: Any, text: str) -> None:
    assert shown.pretty(value) == text


def test_what_is_cut_is_named() -> None:
    assert shown.cut("abcdef", 4) == "abcd\n… 2 more characters"
    assert shown.cut("abcd", 4) == "abcd"


def test_an_error_is_one_sentence() -> None:
    assert shown.sentence({"name": "ValueError", "message": "no", "stack": "…"}) == "ValueError: no"
    assert shown.sentence("no") == "no"
    assert shown.sentence(None) == ""
    assert shown.sentence({"code": 1}) == '{\n  "code": 1\n}'
