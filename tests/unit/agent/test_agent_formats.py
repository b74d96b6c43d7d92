"""Any transcript as litellm translates it for Anthropic: what that format demands holds there too. Offline."""

import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.agent.context.build import NUDGE, build_context
from app.agent.models.provider import marked, takes_marks
from app.config import MODEL_CLIENT_VARIABLES
from app.sessions.transcript import Entry
from tests.unit.agent.transcripts import DATA_URL, MARK, PICTURES, answered, call, said, transcripts


@pytest.fixture(scope="module")
def anthropic() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in MODEL_CLIENT_VARIABLES.items():
            patch.setenv(name, value)
        from litellm.llms.anthropic.chat.transformation import AnthropicConfig

        yield AnthropicConfig()


TOOLS = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]


def translated(anthropic: Any, messages: list[dict[str, Any]]) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        request: dict[str, Any] = anthropic.transform_request(
            model="claude-sonnet-4-6",
            messages=deepcopy(messages),
            optional_params={"tools": deepcopy(TOOLS), "max_tokens": 100},
            litellm_params={},
            headers={},
        )
    return request


def assert_anthropic(request: dict[str, Any]) -> None:
    messages = request["messages"]
    assert [m["role"] for m in messages] == (["user", "assistant"] * len(messages))[: len(messages)]
    waiting: list[str] = []
    for message in messages:
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        assert blocks, "a message of nothing"
        assert all(block["text"].strip() for block in blocks if block["type"] == "text"), "an empty text block"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == waiting, "each call has its one result in the very next message"
        kinds = [block["type"] for block in blocks]
        assert kinds[: len(results)] == ["tool_result"] * len(results), "results come first"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert all(isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use")
    assert waiting == []


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(transcripts(), st.integers(0, 6), st.sampled_from([(), (NUDGE,)]), PICTURES)
def test_any_transcript_is_valid_for_anthropic(
    anthropic: Any, transcript: list[Entry], level: int, notes: tuple[str, ...], pictures: dict[str, str] | None
) -> None:
    messages = build_context(transcript, "sys", shrink_level=level, notes=notes, model="m", pictures=pictures)
    request = translated(anthropic, marked(messages, len(messages) - len(notes)))
    assert_anthropic(request)
    assert str(request["messages"]).count(MARK) == 1
    assert str(request).count("cache_control") <= 4, "no more marks than Anthropic takes"
    assert str(request["messages"]).count("'base64'") == str(messages).count(DATA_URL), "pictures are pictures there"


def test_the_system_prompt_and_what_stays_are_marked(anthropic: Any) -> None:
    messages = build_context([said("one"), answered("", call(1))], "sys", notes=["hurry"])
    request = translated(anthropic, marked(messages, 4))
    assert request["system"][0]["cache_control"] == {"type": "ephemeral"}
    (result, note) = request["messages"][2]["content"]
    assert result["cache_control"] == {"type": "ephemeral"} and "cache_control" not in note
    asked = translated(anthropic, marked(build_context([said("one")], "sys"), 2))
    assert asked["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_marks_are_for_those_who_take_them() -> None:
    assert takes_marks("anthropic/claude-sonnet-4-6") and not takes_marks("openai/gpt-5.4")
    plain = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    marked(plain, 2)
    assert plain == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert marked([], 0) == [] and len(marked(plain, 9)) == 2


def test_the_beginning_stays_the_same_from_call_to_call() -> None:
    """Prompt caches hold the beginning: what a call adds stands behind it, notes of the moment last of all."""
    transcript = [said("one"), answered("a", call(1))]
    first = build_context(transcript, "sys", notes=["5 steps left"])
    second = build_context([*transcript, answered("b", call(2), number=3)], "sys", notes=["4 steps left"])
    assert second[: len(first) - 1] == first[:-1]


def test_thinking_comes_first_in_its_message(anthropic: Any) -> None:
    blocks = {"message": {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}}
    messages = build_context([said("one"), answered("go", call(1), model="m", thinking=blocks)], "s", model="m")
    kinds = [block["type"] for block in translated(anthropic, messages)["messages"][1]["content"]]
    assert kinds == ["thinking", "text", "tool_use"]
