"""What the model is shown: any transcript gives input that every provider format accepts."""

import gc
import json
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.agent.context.build import (
    DRAFT,
    EMPTY,
    NO_RESULT,
    NOT_RUN,
    NUDGE,
    budget_note,
    build_context,
    user_text,
)
from app.agent.context.coverage import visible
from app.agent.context.summary import OPENING
from app.sessions.transcript import Entry
from tests.unit.agent.transcripts import (
    MARK,
    PICTURES,
    answered,
    assert_valid,
    call,
    defects,
    said,
    summary,
    text_of,
    transcripts,
)

SYSTEM = "You are \x00\ud800 a test."

NOTES = st.sampled_from([(), (NUDGE,), (NUDGE, "2 steps left.")])
generous = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def newest_user(messages: list[dict[str, Any]]) -> str:
    return str([text_of(m) for m in messages if m["role"] == "user"][-1])


# TRAPS, Context: "Prune, compact or crash separates a tool call from its result", and "The current message reaches the
# model twice".
@generous
@given(transcripts(), st.integers(0, 8), NOTES, PICTURES)
def test_any_transcript_is_valid_input_at_every_level(
    transcript: list[Entry], level: int, notes: Sequence[str], pictures: dict[str, str] | None
) -> None:
    messages = build_context(transcript, SYSTEM, shrink_level=level, notes=notes, model="m", pictures=pictures)
    assert_valid(messages)
    assert json.dumps(messages).count(MARK) == 1, "the newest words of a person are there exactly once"
    for note in notes:
        assert note in newest_user(messages)


@generous
@given(transcripts(), st.integers(0, 4), PICTURES)
def test_same_input_same_output_and_the_input_stays_as_it_was(
    transcript: list[Entry], level: int, pictures: dict[str, str] | None
) -> None:
    before = deepcopy(transcript)
    first = build_context(transcript, SYSTEM, shrink_level=level, pictures=pictures)
    assert build_context(transcript, SYSTEM, shrink_level=level, pictures=pictures) == first
    assert transcript == before


@generous
@given(transcripts())
def test_every_call_is_there_with_its_result(transcript: list[Entry]) -> None:
    messages = build_context(transcript, SYSTEM)
    asked = [c["id"] for m in messages for c in m.get("tool_calls", ())]
    assert len(asked) == sum(len(entry.calls) for entry in visible(transcript)[1])


def test_the_transcripts_have_every_defect_in_more_than_one_case_of_twenty() -> None:
    """Else the properties above would say little."""
    cases: list[set[str]] = []

    @settings(max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(transcripts())
    def count(transcript: list[Entry]) -> None:
        cases.append(defects(transcript))

    count()
    shares = {name: sum(name in case for case in cases) / len(cases) for name in set().union(*cases)}
    assert len(shares) == 19 and {name: share for name, share in shares.items() if share <= 0.05} == {}


def test_a_summary_stands_for_its_range() -> None:
    transcript = [
        said("one", 1),
        answered("two", number=2),
        said("three", 3),
        summary(4, 1, 2),
        answered("four", number=5),
    ]
    built = build_context(transcript, "sys")
    assert [m["role"] for m in built] == ["system", "user", "assistant"]
    assert built[1]["content"].endswith("- a fox\n\nthree") and "one" not in built[1]["content"]


def test_of_two_summaries_that_meet_the_newer_counts() -> None:
    transcript = [said(str(n), n) for n in range(1, 7)]
    transcript[4:4] = [summary(10, 1, 2, "OLD"), summary(11, 2, 4, "NEW")]
    (_, shown) = build_context(transcript, "sys")
    assert "NEW" in shown["content"] and "OLD" not in shown["content"] and "1\n\n5\n\n6" in shown["content"]


@pytest.mark.parametrize("level", range(8))
def test_the_summary_stays_whatever_is_dropped(level: int) -> None:
    talk = [said("x" * 900, n) if n % 2 else answered("y" * 900, number=n) for n in range(1, 40)]
    built = build_context([*talk[:20], summary(99, 1, 10), *talk[20:]], "sys", shrink_level=level)
    assert built[1]["content"].startswith(OPENING) and str(built).count("- a fox") == 1


def test_thinking_goes_back_to_who_thought_it_within_its_turn() -> None:
    """Reasoning blocks of another model, or of a turn that is over, are refused or paid for nothing."""
    blocks = {"message": {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}}
    old = answered("", call(1), number=2, model="m", thinking=blocks)
    new = answered("", call(2), number=4, model="m", thinking=blocks)
    transcript = [said("one", 1), old, said("two", 3), new]
    assert ["thinking_blocks" in m for m in build_context(transcript, "s", model="m")[1:]].count(True) == 1
    assert "thinking_blocks" in build_context(transcript, "s", model="m")[-2]
    assert "thinking_blocks" not in str(build_context(transcript, "s", model="other"))
    signed = {"message": {}, "calls": [{"thought_signature": "c2ln"}]}
    answer = build_context([said("one"), answered("", call(1), model="m", thinking=signed)], "s", model="m")[2]
    assert answer["tool_calls"][0]["provider_specific_fields"] == {"thought_signature": "c2ln"}


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


def test_a_call_that_comes_twice_has_two_ids_and_two_results() -> None:
    built = build_context([said("one"), answered("", call(7), call(7)), answered("", call(10**8 + 7))], "sys")
    asked = [c["id"] for m in built for c in m.get("tool_calls", ())]
    assert asked == ["c00000007", "c00000008", "c00000009"]
    assert [m["tool_call_id"] for m in built if m["role"] == "tool"] == asked


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
    assert user_text(attached) == "look\n[Attached photo image/png: its content is not available here]"
    there = {"kind": "voice", "path": "inbox/2026-01-05/1-0-voice.ogg", "size": 9}
    shown = "[Attached voice: inbox/2026-01-05/1-0-voice.ogg in the workspace, 9 bytes]"
    assert user_text(said("", data={"attachments": [there]})) == shown


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


LOOP_S = 0.05
"""What counting to a million takes where the figure of a tenth of a second holds; a slower machine may take longer."""


def cpu_s(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def test_ten_thousand_messages_are_a_matter_of_a_tenth_of_a_second() -> None:
    transcript: list[Entry] = []
    for number in range(0, 4 * 1_700, 4):
        calls = (call(2 * number, result="r" * 300), call(2 * number + 1, result="s" * 5_000))
        transcript += [said("a question " * 10, number), answered("", *calls), answered("", call(2 * number + 2))]
        transcript.append(answered("an answer " * 10))
    assert len(build_context(transcript, "sys")) > 10_000
    gc.collect()
    times, loops = [], []
    for _ in range(5):
        times.append(cpu_s(lambda: build_context(transcript, "sys")))
        loops.append(cpu_s(lambda: sum(number for number in range(1_000_000))))
    assert min(times) < 0.15 * max(1, min(loops) / LOOP_S)


def test_many_messages_without_an_answer_cost_no_more() -> None:
    transcript = [said("a question " * 10, number) for number in range(10_000)]
    times = [cpu_s(lambda: build_context(transcript, "sys")) for _ in range(5)]
    assert min(times) < 0.3
