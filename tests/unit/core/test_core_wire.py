"""Events: typed once, clean on the wire, understood in the form that other senders use."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from app.errors import BadInput
from app.events import (
    SAFE_INTEGER,
    Attachment,
    CommandReceived,
    Destination,
    Event,
    MessageReceived,
    ReplyReady,
    Sender,
    SubagentSpawn,
    TurnStopped,
    as_input,
    message_event_id,
    safe_text,
    wire_safe,
)
from app.memory.daily_log import LogFile


class Model(BaseModel):
    """A model inside a value."""

    text: str = "a\ud800"
    number: float = math.inf


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (-1.5, -1.5),
        ("plain ü 🦊", "plain ü 🦊"),
        ("a\ud800b", "a?b"),
        ("\udc00\ud800", "??"),
        ("a\x00b", "ab"),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (SAFE_INTEGER, SAFE_INTEGER),
        (SAFE_INTEGER + 1, str(SAFE_INTEGER + 1)),
        (-SAFE_INTEGER - 1, str(-SAFE_INTEGER - 1)),
        ({1: "a", "b\ud800": [math.nan]}, {"1": "a", "b?": [None]}),
        (("a", 1), ["a", 1]),
        (Model(), {"text": "a?", "number": None}),
        (Destination(chat_id="7"), {"chatId": "7", "messageId": None, "threadId": None, "replyUrl": None}),
        (datetime(2026, 1, 5, tzinfo=UTC), "2026-01-05 00:00:00+00:00"),
        (b"bytes", "b'bytes'"),
        (LogFile, str(LogFile)),
    ],
)
def test_what_is_made_of_a_value(value: Any, safe: Any) -> None:
    assert wire_safe(value) == safe


def test_a_number_too_long_for_python_to_write() -> None:
    assert wire_safe(10**5_000).startswith("0x")


def test_nesting_without_end_is_cut() -> None:
    nested: list[Any] = []
    nested.append(nested)
    text = json.dumps(wire_safe(nested))
    assert text.count("[nested too deeply]") == 1
    deep: Any = "x"
    for _ in range(5_000):
        deep = {"a": deep}
    assert "nested too deeply" in json.dumps(wire_safe(deep))


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(alphabet=st.characters(codec=None)),
        st.sampled_from(["\ud800", "\x00", 2**80, -(2**80), math.nan, math.inf]),
        st.binary(max_size=5),
        st.datetimes(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text() | st.integers(), inner, max_size=4)),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_anything_becomes_json_that_every_hop_accepts(value: Any) -> None:
    safe = wire_safe(value)
    text = json.dumps(safe, ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode("utf-8")) == safe
    assert wire_safe(safe) == safe
    assert all(abs(number) <= SAFE_INTEGER for number in _integers(safe)) and "\\u0000" not in text


def _integers(value: Any) -> list[int]:
    if isinstance(value, Mapping):
        return [number for one in value.values() for number in _integers(one)]
    if isinstance(value, list):
        return [number for one in value for number in _integers(one)]
    return [value] if isinstance(value, int) else []


@given(st.text(alphabet=st.characters(codec=None)))
def test_a_clean_text_stays_as_it_is(text: str) -> None:
    clean = safe_text(text)
    clean.encode("utf-8")
    assert safe_text(clean) == clean and len(clean) == len(text) - text.count("\x00")


UTAH = {
    "message": "hello",
    "sessionKey": "telegram-123",
    "channel": "telegram",
    "sender": {"id": 555, "name": "Ann", "username": "ann"},
    "destination": {"chatId": 123, "messageId": 42},
    "channelMeta": {"chatType": "private"},
    "somethingNew": {"of": "theirs"},
}


def test_an_event_of_another_sender_is_understood() -> None:
    event = MessageReceived.from_data(UTAH)
    assert event == MessageReceived(
        message="hello",
        session_key="telegram-123",
        channel="telegram",
        sender=Sender(id="555", name="Ann", username="ann"),
        destination=Destination(chat_id="123", message_id="42"),
        channel_meta={"chatType": "private"},
    )
    assert (event.steers, event.origin, event.message_key, event.attachments) == (True, "person", None, ())


def test_the_least_an_event_needs() -> None:
    least = {"message": "x", "sessionKey": "s", "channel": "c", "destination": {"chatId": "1"}}
    assert MessageReceived.from_data(least).sender is None
    assert MessageReceived.from_data(least | {"sender": None, "messageKey": None}).sender is None


@pytest.mark.parametrize("missing", ["message", "sessionKey", "channel", "destination"])
def test_what_is_missing_is_named(missing: str) -> None:
    data = {key: value for key, value in UTAH.items() if key != missing}
    with pytest.raises(BadInput, match=rf"agent\.message\.received: the data does not fit: {missing}"):
        MessageReceived.from_data(data)


@pytest.mark.parametrize(
    ("field", "value"), [("message", 5), ("destination", "7"), ("destination", {"chatId": True}), ("sender", {})]
)
def test_what_does_not_fit_is_named(field: str, value: Any) -> None:
    with pytest.raises(BadInput, match=field):
        MessageReceived.from_data(UTAH | {field: value})


def test_there_and_back_again() -> None:
    event = MessageReceived.from_data(UTAH | {"messageKey": "k", "attachments": [{"kind": "photo", "size": 5}]})
    wire = event.to_wire("k:first")
    assert (wire["name"], wire["id"]) == ("agent.message.received", "k:first") and "ts" not in wire
    assert MessageReceived.from_data(wire["data"]) == event
    assert "somethingNew" not in wire["data"] and wire["data"]["destination"] == {"chatId": "123", "messageId": "42"}


def test_an_event_is_clean_when_it_leaves() -> None:
    event = MessageReceived.from_data(UTAH | {"message": "a\ud800\x00", "channelMeta": {"n": 2**60, "x": math.nan}})
    data = event.to_wire("x")["data"]
    assert (data["message"], data["channelMeta"]) == ("a?", {"n": str(2**60), "x": None})
    json.dumps(data, ensure_ascii=False).encode()


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        MessageReceived.from_data(UTAH).message = "other"  # type: ignore[misc]


def test_every_event_has_a_name_of_its_own() -> None:
    kinds = [kind for kind in _all(Event) if "name" in vars(kind)]
    names = [kind.name for kind in kinds]
    assert len(set(names)) == len(names) == 11 and all(name.startswith("agent.") for name in names)


def _all(kind: type[Event]) -> list[type[Event]]:
    return [one for sub in kind.__subclasses__() for one in [sub, *_all(sub)]]


def test_names_on_the_wire_are_those_of_other_senders() -> None:
    ready = ReplyReady(turn_id="t", session_key="s", channel="c", destination=Destination(chat_id="1", thread_id=5))
    assert ready.to_wire("x")["data"] == {
        "turnId": "t",
        "sessionKey": "s",
        "channel": "c",
        "destination": {"chatId": "1", "threadId": "5"},
        "channelMeta": {},
    }
    spawn = SubagentSpawn(task_id="t", task="x", sub_session_key="a", parent_session_key="b")
    assert set(spawn.to_wire("x")["data"]) == {"taskId", "task", "subSessionKey", "parentSessionKey", "mode"}
    assert TurnStopped(session_key="s").to_wire("x")["data"] == {"sessionKey": "s"}


def test_event_ids_say_the_cause() -> None:
    assert message_event_id("telegram:1:7:42") == "telegram:1:7:42:first"
    assert message_event_id("k", "again-2") == "k:again-2"


def read(text: str, **routing: Any) -> MessageReceived | CommandReceived:
    return as_input(text, session_key="s", channel="c", destination=Destination(chat_id="1"), **routing)


@pytest.mark.parametrize(
    ("text", "command", "args"),
    [
        ("/stop", "stop", ""),
        ("  /stop  ", "stop", ""),
        ("/STOP now  please ", "stop", "now  please"),
        ("/stop@moab_bot now", "stop", "now"),
        ("/new\nwith a line", "new", "with a line"),
        ("/hilfe", "hilfe", ""),
    ],
)
def test_a_line_with_a_slash_and_a_name_is_a_command(text: str, command: str, args: str) -> None:
    event = read(text, message_key="k")
    assert isinstance(event, CommandReceived)
    assert (event.command, event.args, event.message_key) == (command, args, "k")


@pytest.mark.parametrize(
    "text", ["hello", "", " ", "/", "//", "/ stop", "/usr/bin is full", "/5 of them", "a /stop", "/@bot", "/a-b"]
)
def test_everything_else_is_a_message_as_it_was_written(text: str) -> None:
    event = read(text)
    assert isinstance(event, MessageReceived) and event.message == text


def test_a_picture_with_a_command_under_it_is_a_message() -> None:
    assert isinstance(read("/stop", attachments=(Attachment(kind="photo"),)), MessageReceived)
    assert isinstance(read("/stop", attachments=()), CommandReceived)
