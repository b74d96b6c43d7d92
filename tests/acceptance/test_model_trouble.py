"""When the model fails: waited for, replaced, fed less, or explained in a plain sentence; never a silent end."""

import json

import pytest

from app.agent.context.build import NUDGE
from app.agent.loop import TOO_MANY_STEPS, TWICE_EMPTY
from app.agent.models.llm import Trouble
from app.agent.recovery import EXPLANATIONS
from app.agent.repetition import STOP_AFTER, STOPPED
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service
from tests.acceptance.stage import Chat

SPEED = 20
"""The patience of a turn is 40 seconds."""


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service(speed=SPEED).start()


def turn_of(service: Service, chat: Chat) -> tuple[str, int]:
    """(state, iteration) of the only turn of a chat."""
    query = "SELECT turns.state, iteration FROM turns JOIN sessions ON sessions.id = session_id WHERE key = ?"
    [row] = service.rows(query, chat.session_key)
    return row["state"], row["iteration"]


def only_reply(service: Service, chat: Chat) -> str:
    [reply] = service.stage.replies(chat)
    return reply


def test_waits_as_long_as_the_provider_asks(service: Service) -> None:
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"fault": "rate_limit", "retry_after": 20, "times": 1}, {"text": "here I am"})

    service.say(chat, "hello")
    service.settle()

    assert only_reply(service, chat) == "here I am"
    first, second = (call["at"] for call in service.stage.asks() if chat.tag in str(call["params"]))
    assert 20 / SPEED <= second - first < 40 / SPEED
    assert turn_of(service, chat) == ("finished", 0)


@pytest.mark.parametrize(
    ("fault", "trouble", "asked"),
    [
        ("unauthorized", Trouble.REJECTED, 1),
        ("not_found", Trouble.REJECTED, 1),
        ("insufficient_quota", Trouble.QUOTA, 1),
        ("bad_request", Trouble.INVALID, 1),
        ("overloaded", Trouble.OVERLOADED, 4),
        ("drop", Trouble.UNAVAILABLE, 4),
        ("junk", Trouble.UNAVAILABLE, 4),
        ("context_length", Trouble.OVERFLOW, 7),
    ],
)
def test_explains_what_does_not_pass(service: Service, fault: str, trouble: Trouble, asked: int) -> None:
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"text": "again well", "when": {"last_user": "later"}}, {"fault": fault})

    service.say(chat, "hello")
    service.settle()

    reply = only_reply(service, chat)
    [run] = service.rows("SELECT run_id FROM turns")
    assert reply == f"{EXPLANATIONS[trouble]} (run {run['run_id']})"
    assert len(service.stage.asked(chat.tag)) == asked
    assert turn_of(service, chat) == ("failed", 0)
    assert service.rows("SELECT state FROM messages") == [{"state": "failed"}]

    service.say(chat, "later")
    service.settle()
    assert service.stage.replies(chat)[1:] == ["again well"]
    check_transcripts(service)


def test_falls_back_to_the_other_model(make_service: MakeService) -> None:
    service = make_service(speed=SPEED, FALLBACK_AGENT_MODEL="openai/second").start()
    chat = service.stage.chat()
    service.stage.script(
        chat.tag, {"fault": "insufficient_quota", "when": {"model": "fake"}}, {"text": "the other one speaks"}
    )

    service.say(chat, "hello")
    service.settle()

    assert only_reply(service, chat) == "the other one speaks"
    assert [request["model"] for request in service.stage.asked(chat.tag)] == ["fake", "second"]


def test_shrinks_a_context_that_is_too_long(service: Service) -> None:
    chat = service.stage.chat()
    service.stage.script(
        chat.tag,
        {"fault": "context_length", "times": 3, "when": {"has_result_of": "bash"}},
        {"text": "it fits", "when": {"has_result_of": "bash"}},
        {"tool_calls": [{"name": "bash", "arguments": {"command": "seq 3000"}}]},
    )

    service.say(chat, "count")
    service.settle()

    assert only_reply(service, chat) == "it fits"
    sizes = [len(json.dumps(request["messages"])) for request in service.stage.asked(chat.tag)[1:]]
    assert sizes[-1] < sizes[0] / 2
    assert turn_of(service, chat) == ("finished", 1)
    assert "2999" in service.rows("SELECT result FROM calls")[0]["result"], "the transcript itself stays whole"


def test_stops_at_the_iteration_limit(service: Service) -> None:
    chat = service.stage.chat()
    look = [{"tool_calls": [{"name": "ls", "arguments": {"path": path}}]} for path in (".", "skills")]
    service.stage.script(chat.tag, look[1] | {"times": 1})
    for number in range(30):
        service.stage.model.script(look[number % 2] | {"when": {"has_result_of": "ls"}})

    service.say(chat, "for ever")
    service.settle()

    assert only_reply(service, chat).startswith(TOO_MANY_STEPS.format(limit=20))
    requests = service.stage.asked(chat.tag)
    assert len(requests) == 20
    assert "1 step left" in requests[-1]["messages"][-1]["content"]
    assert turn_of(service, chat)[0] == "failed"
    check_transcripts(service)


def test_stops_when_nothing_new_is_tried(service: Service) -> None:
    chat = service.stage.chat()
    again = {"tool_calls": [{"name": "find", "arguments": {"pattern": "*"}}]}
    service.stage.script(chat.tag, again | {"times": 1})
    service.stage.model.script(again | {"times": None, "when": {"has_result_of": "find"}})

    service.say(chat, "for ever")
    service.settle()

    assert only_reply(service, chat).startswith(STOPPED.format(names="find"))
    assert len(service.stage.asked(chat.tag)) == STOP_AFTER


def test_an_empty_answer_is_asked_about_once(service: Service) -> None:
    mute, shy = service.stage.chat(), service.stage.chat()
    service.stage.script(mute.tag, {"text": ""})
    service.stage.script(shy.tag, {"text": "  ", "times": 1}, {"text": "sorry, hello"})

    service.say(mute, "hello")
    service.say(shy, "hello")
    service.settle()

    assert only_reply(service, mute).startswith(TWICE_EMPTY)
    assert only_reply(service, shy) == "sorry, hello"
    for chat in (mute, shy):
        first, second = service.stage.asked(chat.tag)
        assert NUDGE not in str(first["messages"]) and NUDGE in second["messages"][-1]["content"]
    check_transcripts(service)


def test_calls_that_make_no_sense_are_explained_to_the_model(service: Service) -> None:
    """Unknown tools, broken arguments, ids that repeat: data of the model, not faults of the turn."""
    chat = service.stage.chat()
    nonsense = [
        {"id": "call_1", "name": "fly", "arguments": {}},
        {"id": "call_1", "name": "read", "arguments": "{broken"},
        {"id": "call_1", "name": "bash", "arguments": {"cmd": "ls"}},
        {"id": "call_1", "name": "read", "arguments": "[1]"},
    ]
    other = [*nonsense[:3], {"id": "call_1", "name": "read", "arguments": "[2]"}]
    service.stage.script(
        chat.tag, {"tool_calls": nonsense, "times": 1}, {"tool_calls": other, "times": 1}, {"text": "I give up"}
    )

    service.say(chat, "try")
    service.settle()

    assert only_reply(service, chat) == "I give up"
    results = [m["content"] for m in service.stage.asked(chat.tag)[-1]["messages"] if m["role"] == "tool"]
    assert len(results) == 8
    for result, words in zip(
        results, ("no tool 'fly'", "not valid JSON", "command", "not a JSON object"), strict=False
    ):
        assert words in result
    check_transcripts(service)
