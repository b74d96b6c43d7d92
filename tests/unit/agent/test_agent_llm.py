"""The model client with the real litellm against a local provider: one attempt, and each failure told apart."""

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from app.agent.models.llm import Asking, Completion, LiteLLM, ModelFailure, ToolWish, Trouble, classify
from app.config import MODEL_CLIENT_VARIABLES
from app.sentences import retell
from tests.fakes.model_server import ModelServer
from tests.unit.agent.transcripts import DATA_URL

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(scope="module")
def client() -> Iterator[LiteLLM]:
    """One client, imported once: it takes two seconds."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own business
        for name, value in MODEL_CLIENT_VARIABLES.items():
            patch.setenv(name, value)
        patch.setenv("OPENAI_API_KEY", "sk-test-key-for-the-fake")
        import litellm  # noqa: F401

        yield LiteLLM(timeout_s=10.0)


@pytest.fixture
async def provider() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture
async def model(client: LiteLLM, provider: ModelServer, monkeypatch: pytest.MonkeyPatch) -> LiteLLM:
    monkeypatch.setattr(client, "_api_base", provider.api_base)
    monkeypatch.setattr(client, "_api_base_for", "openai")
    monkeypatch.setattr(client, "_timeout_s", 10.0)
    await client.warm()
    return client


async def ask(model: LiteLLM, *tools: Any, name: str = "openai/fake") -> Completion | ModelFailure:
    return await model.complete(name, HELLO, tools)


async def test_words_and_what_they_cost(model: LiteLLM, provider: ModelServer) -> None:
    provider.script({"text": "Hi.", "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}})
    answer = await ask(model)
    assert isinstance(answer, Completion)
    assert (answer.text, answer.wishes, answer.input_tokens, answer.output_tokens) == ("Hi.", (), 11, 3)
    (call,) = provider.calls("chat")
    assert call.detail["key"] == "Bearer sk-test-key-for-the-fake" and call.params["messages"] == HELLO
    assert "tools" not in call.params


async def test_the_price_of_a_known_model(model: LiteLLM, provider: ModelServer) -> None:
    answer = await ask(model, name="openai/gpt-4o-mini")
    assert isinstance(answer, Completion) and answer.cost_usd is not None and 0 < answer.cost_usd < 0.01


async def test_wishes_are_passed_through_as_written(model: LiteLLM, provider: ModelServer) -> None:
    provider.script(
        {
            "tool_calls": [
                {"name": "look", "arguments": {"at": "a"}, "id": "same"},
                {"name": "look", "arguments": '{"at": ', "id": "same"},
                {"name": "ghost", "arguments": "not json at all", "id": "x"},
                {"name": "look", "arguments": "", "id": "y"},
            ],
            "text": "On it.",
        }
    )
    answer = await ask(model, TOOL)
    assert answer == Completion(
        "On it.",
        (
            ToolWish("same", "look", '{"at": "a"}'),
            ToolWish("same", "look", '{"at": '),
            ToolWish("x", "ghost", "not json at all"),
            ToolWish("y", "look", ""),
        ),
        answer.input_tokens,
        answer.output_tokens,
        answer.cost_usd,
    )
    assert provider.requests()[0]["tools"] == [TOOL]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_picture_goes_along(model: LiteLLM, provider: ModelServer, streams: bool) -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": DATA_URL}}]
    asking = Asking(on_text=lambda text: None) if streams else Asking()
    answer = await model.complete("openai/fake", [{"role": "user", "content": parts}], (), asking)
    assert isinstance(answer, Completion) and answer.text.startswith("You said: look")
    assert provider.requests()[0]["messages"][0]["content"] == parts


async def test_who_sees_is_known(model: LiteLLM) -> None:
    names = ("anthropic/claude-sonnet-4-6", "openai/gpt-5.4", "deepseek/deepseek-chat", "openai/fake")
    assert [(await model.facts(name)).sees for name in names] == [True, True, False, False]
    told = LiteLLM(timeout_s=1.0, seeing=("openai/fake",))
    assert (await told.facts("openai/fake")).sees


async def test_an_answer_of_nothing_is_empty(model: LiteLLM, provider: ModelServer) -> None:
    provider.script({"text": None}, {"text": ""}, {"text": None, "reasoning": "I think, therefore"})
    for _ in range(3):
        answer = await ask(model)
        assert isinstance(answer, Completion) and (answer.text, answer.wishes) == ("", ())


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        ("rate_limit", Trouble.OVERLOADED),
        ("insufficient_quota", Trouble.QUOTA),
        ("context_length", Trouble.OVERFLOW),
        ("bad_request", Trouble.INVALID),
        ("unauthorized", Trouble.REJECTED),
        ("forbidden", Trouble.REJECTED),
        ("not_found", Trouble.REJECTED),
        ("server_error", Trouble.UNAVAILABLE),
        ("overloaded", Trouble.OVERLOADED),
        ("drop", Trouble.UNAVAILABLE),
        ("junk", Trouble.UNAVAILABLE),
    ],
)
async def test_each_fault_is_told_apart_after_one_attempt(
    model: LiteLLM, provider: ModelServer, fault: str, trouble: Trouble
) -> None:
    provider.script({"fault": fault, "times": None})
    answer = await ask(model)
    assert isinstance(answer, ModelFailure) and answer.trouble is trouble, answer
    assert len(provider.calls("chat")) == 1
    assert answer.retry_after_s is None and "sk-test-key" not in answer.message


async def test_a_provider_that_hangs_is_given_up(
    model: LiteLLM, provider: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "_timeout_s", 0.3)
    provider.script({"fault": "hang", "times": None})
    answer = await ask(model)
    assert isinstance(answer, ModelFailure) and answer.trouble is Trouble.UNAVAILABLE
    assert len(provider.calls("chat")) == 1


async def test_a_provider_that_is_not_there(model: LiteLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_api_base", "http://127.0.0.1:9/v1")
    answer = await ask(model)
    assert isinstance(answer, ModelFailure) and answer.trouble is Trouble.UNAVAILABLE


@pytest.mark.parametrize("name", ["no-such-provider/x", "just-a-name"])
async def test_a_model_nobody_knows_is_refused_before_anything_is_sent(
    model: LiteLLM, provider: ModelServer, name: str
) -> None:
    answer = await ask(model, name=name)
    assert isinstance(answer, ModelFailure) and answer.trouble is Trouble.REJECTED
    assert provider.calls("chat") == []


@pytest.mark.parametrize("fault", ["rate_limit", "overloaded", "server_error"])
async def test_the_providers_wish_to_wait_is_heard(model: LiteLLM, provider: ModelServer, fault: str) -> None:
    provider.script({"fault": fault, "retry_after": 7})
    answer = await ask(model)
    assert isinstance(answer, ModelFailure) and answer.retry_after_s == 7.0


class Refusal(Exception):
    """What a provider's library may raise: a status and headers."""

    def __init__(self, text: str, status: int, **headers: str) -> None:
        super().__init__(text)
        self.status_code = status
        self.litellm_response_headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("12", 12.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("-3", None),
        ("soon", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("inf", None),
        ("nan", None),
        ("1e12", None),
    ],
)
async def test_a_wish_to_wait_in_any_form(model: LiteLLM, header: str, seconds: float | None) -> None:
    litellm = await model._load()
    assert classify(litellm, Refusal("busy", 529, retry_after=header)) == ModelFailure(
        Trouble.OVERLOADED, "busy", seconds
    )


@pytest.mark.parametrize(
    ("text", "status", "trouble"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 400, Trouble.OVERFLOW),
        ("Input exceeds the context window of this model", 400, Trouble.OVERFLOW),
        ("Your credit balance is too low to access the API", 400, Trouble.QUOTA),
        ("Payment required", 402, Trouble.QUOTA),
        ("You exceeded your current quota, please check your plan and billing details.", 429, Trouble.QUOTA),
        ("You exceeded your current quota. Please retry in 27.5s.", 429, Trouble.OVERLOADED),
        ("insufficient_quota: retry in 20s", 429, Trouble.QUOTA),
        ("Too many tokens for the context window of this minute", 429, Trouble.OVERLOADED),
        ("messages.1.content: invalid", 400, Trouble.INVALID),
        ("unprocessable", 422, Trouble.INVALID),
        ("no access", 403, Trouble.REJECTED),
        ("Overloaded", 529, Trouble.OVERLOADED),
        ("bad gateway", 502, Trouble.UNAVAILABLE),
        ("what is this", 0, Trouble.UNAVAILABLE),
    ],
)
async def test_what_providers_say_in_their_own_words(model: LiteLLM, text: str, status: int, trouble: Trouble) -> None:
    assert classify(await model._load(), Refusal(text, status)).trouble is trouble


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ('{"retryDelay": "27s"}', 27.0),
        ("Please retry in 27.5s.", 27.5),
        ("Please retry after 3 seconds", 3.0),
        ("Do not retry", None),
    ],
)
async def test_a_wish_to_wait_in_words(model: LiteLLM, text: str, seconds: float | None) -> None:
    assert classify(await model._load(), Refusal(text, 429)).retry_after_s == seconds


async def test_a_long_complaint_is_cut(model: LiteLLM) -> None:
    assert len(classify(await model._load(), Refusal("x" * 9_000, 500)).message) == 500


async def test_an_address_is_for_the_models_of_its_provider_alone(model: LiteLLM, provider: ModelServer) -> None:
    failure = await ask(model, name="mistral/other")
    assert isinstance(failure, ModelFailure) and provider.calls("chat") == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("anthropic/claude-x", "anthropic/claude-x cannot be asked: ANTHROPIC_API_KEY is not set where I run."),
        ("foo/bar", "foo/bar is of no provider that I know."),
        ("gpt", "gpt is of no provider that I know."),
    ],
)
async def test_what_is_missing_to_ask_a_model_is_named(
    model: LiteLLM, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    failure = await ask(model, name=name)
    assert isinstance(failure, ModelFailure) and failure.trouble is Trouble.REJECTED
    assert failure.advice.startswith(says) and await model.lacks(name) == failure.advice
    assert retell(failure.advice, "de").startswith((f"{name} kann nicht gefragt werden", f"{name} gehört zu keinem"))


async def test_where_nothing_is_missing_nothing_is_said(model: LiteLLM, provider: ModelServer) -> None:
    provider.script({"fault": "unauthorized"})
    failure = await ask(model)
    assert isinstance(failure, ModelFailure) and (failure.trouble, failure.advice) == (Trouble.REJECTED, "")
    assert await model.lacks("ollama/llama3.2") == "", "it needs no key"


async def test_an_ollama_that_is_off_is_named_with_its_address(
    client: LiteLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_api_base", "http://127.0.0.1:9")
    monkeypatch.setattr(client, "_api_base_for", "ollama")
    failure = await ask(client, name="ollama/llama3.2")
    assert isinstance(failure, ModelFailure) and failure.trouble is Trouble.UNAVAILABLE
    assert failure.advice == "Ollama does not answer at http://127.0.0.1:9. `ollama serve` starts it."


class OwnEndpoint:
    """A local model that counts its starts."""

    def __init__(self, url: str) -> None:
        self.url, self.starts = url, 0

    async def start(self) -> str:
        self.starts += 1
        return self.url


async def test_a_model_of_our_own_is_started_and_asked_at_its_address(provider: ModelServer, client: LiteLLM) -> None:
    own = OwnEndpoint(provider.api_base)
    model = LiteLLM(timeout_s=10, api_base="http://127.0.0.1:9", local_name="local/tiny", local=own)
    answer = await ask(model, name="local/tiny")
    assert isinstance(answer, Completion) and answer.text == "You said: hello" and own.starts == 1
    assert provider.requests()[0]["max_tokens"] == 400
    assert provider.calls("chat")[0].detail["key"] == "Bearer none"


async def test_a_model_of_our_own_answers_people_before_goals(provider: ModelServer, client: LiteLLM) -> None:
    """It does one thing at a time: what a person waits for goes before all that nobody waits for."""
    model = LiteLLM(timeout_s=10, local_name="local/tiny", local=OwnEndpoint(provider.api_base))
    await model.warm()
    asked = []
    for words, urgent in (("goal 1", False), ("goal 2", False), ("goal 3", False), ("person", True)):
        message = [{"role": "user", "content": words}]
        asked.append(asyncio.create_task(model.complete("local/tiny", message, (), Asking(urgent=urgent))))
    await asyncio.gather(*asked)
    assert [request["messages"][-1]["content"] for request in provider.requests()] == [
        "goal 1", "person", "goal 2", "goal 3",
    ]  # fmt: skip


async def test_a_model_of_our_own_that_does_not_start_is_a_failure(client: LiteLLM) -> None:
    class Broken(OwnEndpoint):
        async def start(self) -> str:
            raise OSError("no memory")

    answer = await ask(LiteLLM(timeout_s=10, local_name="local/tiny", local=Broken("")), name="local/tiny")
    assert answer == ModelFailure(Trouble.UNAVAILABLE, "no memory")


def test_the_library_asks_the_network_for_nothing_when_it_is_imported(client: LiteLLM) -> None:
    assert os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
