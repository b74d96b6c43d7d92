"""Transcripts of every kind of damage, for property tests, and what every provider format demands of messages."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, pairwise
from typing import Any

from hypothesis import strategies as st

from app.agent.context.pictures import attached_pictures, picture_of
from app.sessions.calls import CallRecord
from app.sessions.transcript import Entry

AT = datetime(2026, 1, 5, tzinfo=UTC)
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
        content = text_of(message)
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


def text_of(message: dict[str, Any]) -> str | None:
    """The words of a message; parts are checked for what the formats demand of them."""
    content = message.get("content")
    if not isinstance(content, list):
        assert content is None or isinstance(content, str)
        return content
    assert message["role"] == "user" and content, "only a user's message has parts"
    for part in content:
        if part["type"] == "text":
            assert set(part) == {"type", "text"} and part["text"].strip()
        else:
            assert set(part) == {"type", "image_url"} and part["image_url"]["url"].startswith("data:image/")
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _refuse(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


PICTURE_FILES = ("in/photo.jpg", ".moab/artifacts/a.png", ".moab/artifacts/b.jpg")
DATA_URL = "data:image/png;base64,iVBORw0KGgo="
PICTURES: st.SearchStrategy[dict[str, str] | None] = st.one_of(
    st.none(), st.sets(st.sampled_from(PICTURE_FILES)).map(lambda paths: dict.fromkeys(paths, DATA_URL))
)
ARTIFACTS = st.sampled_from([None, None, ".moab/artifacts/c.txt", *PICTURE_FILES[1:]])
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
        {"attachments": [{"kind": "photo", "path": PICTURE_FILES[0]}, {"mime": "image/png", "path": "gone\ud800.png"}]},
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
                artifact=draw(ARTIFACTS) if state == "finished" else None,
            )
        )
    return tuple(found)


def summary(number: int, first: int, last: int, text: str = "## Goal\n- a fox") -> Entry:
    return Entry(number, "summary", text, AT, data={"covers": [first, last]})


@st.composite
def summaries(draw: st.DrawFn, number: int) -> Entry:
    """Of anything before, of nothing, of itself, of what is not there; with no words; with broken data."""
    ends = st.integers(-1, number + 1)
    data = draw(
        st.one_of(
            st.tuples(ends, ends).map(lambda covers: {"covers": list(covers)}),
            st.tuples(st.just(1), ends).map(lambda covers: {"covers": list(covers)}),
            st.sampled_from([{}, {"covers": None}, {"covers": [1]}, {"covers": ["1", 2.5]}]),
        )
    )
    return Entry(number, "summary", draw(st.one_of(st.just("## Goal\n- a fox"), TEXTS)), AT, data=data)


THINKING = st.sampled_from(
    [
        {"message": {"reasoning_content": "hm"}},
        {"message": {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}, "calls": [None]},
        {"message": {}, "calls": [{"thought_signature": "c2ln"}] * 9},
        "broken",
    ]
)
KINDS = st.sampled_from(["user", "user", "assistant", "assistant", "assistant", "summary"])


@st.composite
def transcripts(draw: st.DrawFn) -> list[Entry]:
    """A person speaks first; then anything. The newest words of a person carry the mark."""
    found = [said(draw(TEXTS), 1)]
    next_call = draw(st.sampled_from([1, 99_999_990]))
    for number in range(2, 2 + draw(st.integers(0, 16))):
        kind = draw(KINDS)
        if kind == "user":
            found.append(said(draw(TEXTS), number, origin=draw(ORIGINS), data=draw(USER_DATA)))
        elif kind == "summary":
            found.append(draw(summaries(number)))
        else:
            calls = draw(calls_of(next_call))
            next_call += len(calls)
            earlier = [call for entry in found for call in entry.calls]
            if earlier and draw(st.booleans()):  # the same call with its result once more
                calls = (*calls, draw(st.sampled_from(earlier)))
            data: dict[str, Any] = draw(
                st.sampled_from([{}, {"draft": True}, {"model": "m", "blind": True}, {"model": "other"}])
            )
            if calls and draw(st.booleans()):
                data = data | {"thinking": draw(THINKING)}
            found.append(Entry(number, "assistant", draw(TEXTS), AT, calls, data=data))
    newest = max(i for i, entry in enumerate(found) if entry.role == "user")
    found[newest] = replace(found[newest], text=found[newest].text + MARK)
    return found


def defects(transcript: list[Entry]) -> set[str]:
    """What is wrong or hard in a transcript, by name."""
    calls = [call for entry in transcript for call in entry.calls]
    texts = [entry.text for entry in transcript] + [call.result or "" for call in calls]
    roles = [entry.role for entry in transcript if entry.role != "summary"]
    thoughtful = [entry for entry in transcript if isinstance(entry.data.get("thinking"), dict)]
    found = {
        "orphan call": any(call.result is None for call in calls),
        "late result of an interrupted call": any(c.state == "interrupted" and c.result is not None for c in calls),
        "repeated call id": len({call.id for call in calls}) < len(calls),
        "duplicate result": any(one.id == other.id and one.result is not None for one, other in combinations(calls, 2)),
        "repeated call": len({(c.name, c.arguments) for c in calls}) < len(calls),
        "arguments that are no object": any(not _is_object(call.arguments) for call in calls),
        "surrogate": any(_has_surrogate(text) for text in texts),
        "NUL": any("\x00" in text for text in texts),
        "empty text": any(not text.strip() for text in texts),
        "image": any(attached_pictures(entry) for entry in transcript),
        "image of a tool": any(map(picture_of, calls)),
        "file that is not there": any("gone" in str(entry.data) or "a\x00" in str(entry.data) for entry in transcript),
        "huge output": any(len(call.result or "") > 4_000 for call in calls),
        "thinking of another model": any(entry.data.get("model") == "other" for entry in thoughtful),
        "thinking of this model": any(entry.data.get("model") == "m" for entry in thoughtful),
        "interleaved turns": any(pair == ("user", "user") for pair in pairwise(roles)),
        "draft": any(entry.data.get("draft") for entry in transcript),
        "summary": any(entry.role == "summary" for entry in transcript),
        "two summaries": [entry.role for entry in transcript].count("summary") > 1,
    }
    return {name for name, there in found.items() if there}


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text or "{}"), dict)
    except (ValueError, RecursionError):
        return False


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
