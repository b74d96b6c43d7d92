import json

import httpx
import pytest

from tests.fakes.model_server import ModelServer, last_user
from tests.fakes.process import FakeProcess


@pytest.fixture
async def model():
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def client():
    async with httpx.AsyncClient(trust_env=False, timeout=1) as client:
        yield client


async def ask(client, server, text="hi", **more):
    body = {"model": "fake", "messages": [{"role": "user", "content": text}]} | more
    return await client.post(server.api_base + "/chat/completions", json=body)


def deltas(response):
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
    return [chunk["choices"][0] for chunk in map(json.loads, lines) if chunk["choices"]]


async def test_answers_come_in_sequence_then_the_default(client, model):
    model.script({"text": "one"}, {"text": "two: {last_user}"})
    answers = [(await ask(client, model)).json() for _ in range(3)]
    assert [a["choices"][0]["message"]["content"] for a in answers] == ["one", "two: hi", "You said: hi"]
    assert answers[0]["choices"][0]["finish_reason"] == "stop" and answers[0]["usage"]["total_tokens"] > 0
    assert last_user(model.requests()[0]) == "hi"


async def test_tool_calls_have_fresh_ids_unless_an_id_is_given(client, model):
    call = {"name": "read", "arguments": {"path": "a"}}
    model.script({"tool_calls": [call, call | {"id": "same"}], "times": 2})
    first, second = [(await ask(client, model)).json()["choices"][0] for _ in range(2)]
    assert first["finish_reason"] == "tool_calls"
    ids = [[c["id"] for c in choice["message"]["tool_calls"]] for choice in (first, second)]
    assert ids == [["call_1_1", "same"], ["call_2_1", "same"]]


async def test_rules_answer_by_what_was_asked(client, model):
    model.script(
        {"when": {"last_role": "tool"}, "text": "done", "times": None},
        {"when": {"last_user": "weather"}, "tool_calls": [{"name": "look"}], "times": None},
    )
    assert (await ask(client, model, "the weather?")).json()["choices"][0]["message"]["tool_calls"]
    history = [{"role": "user", "content": "weather"}, {"role": "tool", "tool_call_id": "x", "content": "sunny"}]
    assert (await ask(client, model, messages=history)).json()["choices"][0]["message"]["content"] == "done"


async def test_a_function_may_decide(client):
    async with ModelServer(respond=lambda body: f"{len(body['messages'])} messages") as model:
        assert (await ask(client, model)).json()["choices"][0]["message"]["content"] == "1 messages"


async def test_a_stream_says_the_same_as_a_whole_answer(client, model):
    text = "A  longer text,\nin pieces."
    model.script({"text": text, "tool_calls": [{"name": "read", "arguments": {"path": "a"}}]})
    choices = deltas(await ask(client, model, stream=True))
    assert "".join(c["delta"].get("content") or "" for c in choices) == text
    calls = [c["delta"]["tool_calls"][0]["function"] for c in choices if "tool_calls" in c["delta"]]
    assert json.loads("".join(c["arguments"] for c in calls)) == {"path": "a"}
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("rate_limit", 429, "rate_limit_exceeded"),
        ("insufficient_quota", 429, "insufficient_quota"),
        ("context_length", 400, "context_length_exceeded"),
        ("unauthorized", 401, "invalid_api_key"),
        ("server_error", 500, "server_error"),
        ("overloaded", 503, "overloaded"),
    ],
)
async def test_faults_look_like_the_providers(client, model, fault, status, code):
    model.script({"fault": fault, "retry_after": 2})
    response = await ask(client, model)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.headers["retry-after"] == "2"


async def test_broken_connections(client, model):
    model.script({"fault": "drop"}, {"fault": "hang"}, {"fault": "cut", "text": "a long enough answer"})
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(client, model)
    with pytest.raises(httpx.ReadTimeout):
        await client.post(model.api_base + "/chat/completions", json={"messages": []}, timeout=0.05)
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(client, model, stream=True)


def test_the_separate_process_is_scripted_over_http():
    with FakeProcess("model_server") as fake:
        fake.script({"text": "scripted"})
        url, body = fake.url + "/v1/chat/completions", {"model": "m", "messages": []}
        answer = httpx.post(url, json=body, trust_env=False).json()
        assert answer["choices"][0]["message"]["content"] == "scripted"
        assert fake.calls("chat")[0]["params"] == body
