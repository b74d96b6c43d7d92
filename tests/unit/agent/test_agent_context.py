"""What the model is shown: any transcript gives input that every provider format accepts."""

import gc
import json
import re
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.agent.context import (
    DRAFT,
    EMPTY,
    NO_RESULT,
    NOT_RUN,
    NUDGE,
    budget_note,
    build_context,
    user_text,
)
from app.sessions.calls import CallRecord
from app.sessions.transcript import Entry

AT = datetime(2026, 1, 5, tzinfo=UTC)
SYSTEM = "You are \x00\ud800 a test."
MARK = "newest-question"


def call(number: int, **changes: Any) -> CallRecord:
    fields: dict[str, Any] = {
        "id": number,
        "run_id": "r",
        "step_key": f"tool#{number}",
        "name": "look",
        "arguments": "{}",
        "effect": "read",
        "state": "finished",
        "ok": True,
        "result": "seen",
        "boot_id": None,
        "seen_at": None,
        "session_id": "S",
    }
    return CallRecord(**fields | changes)


def said(text: str, number: int = 1, **changes: Any) -> Entry:
    return Entry(number, "user", text, AT, **changes)


def answered(text: str, *calls: CallRecord, number: int = 2, **data: Any) -> Entry:
    return Entry(number, "assistant", text, AT, calls, data=data)


def assert_valid(messages: list[dict[str, Any]]) -> None:
    """What the strictest of the provider formats demand."""
    assert [m["role"] for m in messages[:2]] == ["system", "user"]
    assert [m["role"] for m in messages].count("system") == 1
    json.dumps(messages, ensure_ascii=False, allow_nan=False).encode("utf-8")
    seen: set[str] = set()
    waiting: list[str] = []
    for before, message in zip([{"role": ""}, *messages], messages, strict=False):
        content = message.get("content")
        assert "\x00" not in (content or "")
        if message["role"] == "tool":
            assert waiting and message["tool_call_id"] == waiting.pop(0)
            assert content and content.strip()
            continue
        assert waiting == [], "a call without its result"
        assert message["role"] != before["role"], "two neighbours of the same role"
        calls = message.get("tool_calls", [])
        assert (content and content.strip()) or (message["role"] == "assistant" and content is None and calls)
        assert "tool_calls" not in message or (message["role"] == "assistant" and calls)
        for one in calls:
            assert one["id"] not in seen and re.fullmatch(r"[A-Za-z0-9]{9}", one["id"])
            seen.add(one["id"])
            waiting.append(one["id"])
            assert one["type"] == "function" and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", one["function"]["name"])
            assert isinstance(json.loads(one["function"]["arguments"], parse_constant=_refuse), dict)
    assert waiting == [], "a call without its result"


def _refuse(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


ODD = ["", " ", "\n\n", "\x00", "\ud800", "a\x00b\udfff", "x" * 4_001, "🦊" * 30, "</tool>", "r" * 60_000]
TEXTS = st.one_of(st.sampled_from(ODD), st.text(alphabet=st.characters(codec=None), max_size=40))
ARGUMENTS = st.one_of(
    st.sampled_from(
        [
            "",
            "{",
            "null",
            "[1, 2]",
            '"text"',
            "not json",
            "{" * 5_000,
            "[" * 50_000,
            '{"a": ' * 300 + "1" + "}" * 300,
            '{"a": NaN, "b": [Infinity]}',
            '{"a": "\\ud800", "b\\u0000": "\\u0000"}',
            '{"big": 123456789012345678901234567890}',
            '{"big": ' + "9" * 5_000 + "}",
            '{"path": "a.txt", "path": "b.txt"}',
            '{"x": "é\x00"}',
            '{"long": "' + "y" * 9_000 + '"}',
        ]
    ),
    st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.floats(), st.text(max_size=9))).map(json.dumps),
    TEXTS,
)
STATES = st.sampled_from(["planned", "started", "finished", "interrupted"])
ORIGINS = st.sampled_from([None, "person", "task", "the watcher", "a sub-agent\ud800"])
USER_DATA = st.sampled_from(
    [
        {},
        {"sender": "Ann\ud800", "group": True},
        {"sender": "Ann"},
        {"attachments": [{"kind": "photo", "name": None, "mime": "image/png"}, {"name": "a\x00.pdf"}]},
    ]
)


@st.composite
def calls_of(draw: st.DrawFn, first: int) -> tuple[CallRecord, ...]:
    found = []
    for number in range(first, first + draw(st.integers(0, 4))):
        state = draw(STATES)
        has_result = state == "finished" or (state == "interrupted" and draw(st.booleans()))
        found.append(
            call(
                number,
                name=draw(st.one_of(st.sampled_from(["look", "", "a b/c", "ünü", "n" * 99, "\ud800"]), TEXTS)),
                arguments=draw(ARGUMENTS),
                state=state,
                result=draw(TEXTS) if has_result else None,
                child_key=draw(st.sampled_from([None, "task:r:tool#1"])),
            )
        )
    return tuple(found)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Entry]:
    """A person speaks first; then anything. The newest words of a person carry the mark."""
    found = [said(draw(TEXTS), 1)]
    next_call = draw(st.sampled_from([1, 99_999_990]))
    for number in range(2, 2 + draw(st.integers(0, 12))):
        if draw(st.booleans()):
            found.append(said(draw(TEXTS), number, origin=draw(ORIGINS), data=draw(USER_DATA)))
        else:
            calls = draw(calls_of(next_call))
            next_call += len(calls)
            data = draw(st.sampled_from([{}, {"draft": True}, {"model": "m"}]))
            found.append(Entry(number, "assistant", draw(TEXTS), AT, calls, data=data))
    newest = max(i for i, entry in enumerate(found) if entry.role == "user")
    found[newest] = replace(found[newest], text=found[newest].text + MARK)
    return found


NOTES = st.sampled_from([(), (NUDGE,), (NUDGE, "2 steps left.")])
generous = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def newest_user(messages: list[dict[str, Any]]) -> str:
    return str([m["content"] for m in messages if m["role"] == "user"][-1])


@generous
@given(transcripts(), st.integers(0, 8), NOTES)
def test_any_transcript_is_valid_input_at_every_level(
    transcript: list[Entry], level: int, notes: Sequence[str]
) -> None:
    messages = build_context(transcript, SYSTEM, shrink_level=level, notes=notes)
    assert_valid(messages)
    assert json.dumps(messages).count(MARK) == 1, "the newest words of a person are there exactly once"
    for note in notes:
        assert note in newest_user(messages)


@generous
@given(transcripts(), st.integers(0, 4))
def test_same_input_same_output_and_the_input_stays_as_it_was(transcript: list[Entry], level: int) -> None:
    before = deepcopy(transcript)
    first = build_context(transcript, SYSTEM, shrink_level=level)
    assert build_context(transcript, SYSTEM, shrink_level=level) == first
    assert transcript == before


@generous
@given(transcripts())
def test_every_call_is_there_with_its_result(transcript: list[Entry]) -> None:
    messages = build_context(transcript, SYSTEM)
    asked = [c["id"] for m in messages for c in m.get("tool_calls", ())]
    assert len(asked) == sum(len(entry.calls) for entry in transcript)


def test_a_plain_conversation() -> None:
    transcript = [said("one"), answered("", call(7, result="r")), answered("done"), said("two", 4)]
    assert build_context(transcript, "sys") == [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "one"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c00000007", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c00000007", "content": "r"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "two"},
    ]


def test_neighbours_of_one_role_become_one_message() -> None:
    transcript = [said("one"), said("two"), answered("a"), answered("b", call(1)), answered("c"), answered("d")]
    contents = [m["content"] for m in build_context(transcript, "sys")]
    assert contents == ["sys", "one\n\ntwo", "a\n\nb", "seen", "c\n\nd"]


def test_an_empty_answer_between_two_questions_leaves_no_gap() -> None:
    transcript = [said("one"), answered(" "), said("two")]
    assert [m["content"] for m in build_context(transcript, "sys")] == ["sys", "one\n\ntwo"]


def test_an_assistant_never_speaks_first() -> None:
    transcript = [answered("lost its question", call(1)), said("two")]
    assert [m["role"] for m in build_context(transcript, "sys")] == ["system", "user"]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"state": "planned", "result": None}, NOT_RUN),
        ({"state": "started", "result": None}, NO_RESULT),
        ({"state": "interrupted", "result": None}, NO_RESULT),
        ({"state": "interrupted", "result": "may have"}, "may have"),
        ({"state": "finished", "result": ""}, "(no output)"),
        ({"state": "finished", "result": " \n\t"}, "(no output)"),
        ({"state": "finished", "result": "\n  indented\n"}, "  indented"),
        ({"state": "finished", "result": "late", "child_key": "task:1"}, "late"),
    ],
)
def test_what_stands_for_a_result(changes: dict[str, Any], shown: str) -> None:
    messages = build_context([said("one"), answered("", call(1, **changes))], "sys")
    assert messages[-1]["content"] == shown


def test_a_child_still_running_is_named() -> None:
    running = call(1, state="started", result=None, child_key="task:r:tool#0.0")
    shown = build_context([said("one"), answered("", running)], "sys")[-1]["content"]
    assert "task:r:tool#0.0" in shown and "Do not delegate it again" in shown


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("[1]", {"_value": [1]}),
        ("null", {"_value": None}),
        ("{oops", {"_unreadable": "{oops"}),
        ('{"n": 123456789012345678901}', {"n": "123456789012345678901"}),
        ('{"n": NaN}', {"n": None}),
        ('{"s": "\\ud800"}', {"s": "?"}),
    ],
)
def test_arguments_as_a_json_object(written: str, read: Any) -> None:
    messages = build_context([said("one"), answered("", call(1, arguments=written))], "sys")
    assert json.loads(messages[2]["tool_calls"][0]["function"]["arguments"]) == read


def test_deeply_nested_arguments_do_not_brick_the_session() -> None:
    messages = build_context([said("one"), answered("", call(1, arguments="[" * 100_000))], "sys")
    assert_valid(messages)


def test_plain_arguments_stay_as_the_model_wrote_them() -> None:
    written = '{"path":"a.txt",  "n": 3}'
    messages = build_context([said("one"), answered("", call(1, arguments=written))], "sys")
    assert messages[2]["tool_calls"][0]["function"]["arguments"] == written


def test_a_draft_says_that_it_was_not_sent() -> None:
    messages = build_context([said("one"), answered("my answer", draft=True), said("two")], "sys")
    assert messages[2]["content"] == f"my answer\n\n{DRAFT}"


def test_the_words_of_an_input() -> None:
    assert user_text(said("  hello\n")) == "hello"
    assert user_text(said(" \x00")) == EMPTY
    assert user_text(said("hi", data={"sender": "Ann", "group": True})) == "Ann: hi"
    assert user_text(said("hi", data={"sender": "Ann"})) == "hi"
    assert user_text(said("hi", origin="person")) == "hi"
    assert user_text(said("hi", origin="task")) == "hi"
    assert user_text(said("file.txt is new", origin="the watcher")) == (
        "[From the watcher, not from a person]\nfile.txt is new"
    )
    attached = said("look", data={"attachments": [{"kind": "photo", "name": None, "mime": "image/png"}]})
    assert user_text(attached) == "look\n[Attached photo: image/png — its content is not available here]"


def test_notes_stand_behind_the_newest_words_and_are_not_pruned() -> None:
    asked = build_context([said("one")], "sys", notes=["hurry"])
    assert asked[-1] == {"role": "user", "content": "one\n\n[System note: hurry]"}
    acted = build_context([said("one"), answered("", call(1))], "sys", notes=["hurry"], shrink_level=6)
    assert acted[-1] == {"role": "user", "content": "[System note: hurry]"}


def test_budget_notes_come_near_the_end() -> None:
    notes = {iteration: budget_note(iteration, 20) for iteration in range(20)}
    assert all(notes[iteration] is None for iteration in range(15))
    assert [str(notes[i]).partition(" in this turn")[0] for i in range(15, 20)] == [
        "5 steps left",
        "4 steps left",
        "3 steps left",
        "2 steps left",
        "1 step left",
    ]
    assert "Use no more tools" in str(notes[18]) and "Use no more tools" not in str(notes[17])
    assert "Use no more tools" in str(budget_note(0, 1))


def test_ten_thousand_messages_take_less_than_a_tenth_of_a_second() -> None:
    transcript: list[Entry] = []
    for number in range(0, 4 * 1_700, 4):
        calls = (call(2 * number, result="r" * 300), call(2 * number + 1, result="s" * 5_000))
        transcript += [said("a question " * 10, number), answered("", *calls), answered("", call(2 * number + 2))]
        transcript.append(answered("an answer " * 10))
    assert len(build_context(transcript, "sys")) > 10_000
    gc.collect()
    times = []
    for _ in range(5):
        started = time.process_time()
        build_context(transcript, "sys")
        times.append(time.process_time() - started)
    assert min(times) < 0.1


def test_many_messages_without_an_answer_cost_no_more() -> None:
    transcript = [said("a question " * 10, number) for number in range(10_000)]
    started = time.process_time()
    build_context(transcript, "sys")
    assert time.process_time() - started < 0.1
