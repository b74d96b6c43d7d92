"""Which model a turn asks and how: roles, fallback, levels of thinking, streaming, and what is shown meanwhile."""

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from sqlalchemy import update

from app.agent.flow import Flow
from app.agent.models.chosen import choose_models
from app.agent.models.llm import Asking, Completion, Facts, LiteLLM, ModelFailure, Trouble
from app.agent.models.provider import may_think, thinking_of
from app.agent.think import think
from app.config import LOCAL_MODEL, MODEL_CLIENT_VARIABLES, Settings
from app.sessions import session
from app.tables import messages, sessions
from app.web.feed import feed
from tests.fakes.model_server import ModelServer
from tests.unit.house import SESSION, House, ask, begin, make_house, run_id, whole_turn, wishes

ROLES = {
    "agent_model": "a/main",
    "fallback_agent_model": "b/other",
    "subagent_model": "c/sub",
    "summary_model": "d/sum",
}


def chosen(delegates: bool = True, model: str = "", think: str = "", **changes: str) -> Any:
    return choose_models(Settings(_env_file=None, **ROLES | changes), model, think, delegates=delegates)


def test_each_role_has_its_model() -> None:
    assert (chosen().main, chosen().fallback, chosen().summary) == ("a/main", "b/other", "d/sum")
    assert chosen(delegates=False).main == "c/sub" and chosen(delegates=False, subagent_model="").main == "a/main"
    assert chosen(model="x/own").main == "x/own", "what people chose for a session wins"
    assert chosen(delegates=False, model="x/own", subagent_model="").main == "x/own"
    assert chosen(model="b/other").fallback == "", "a model is no fallback for itself"
    assert (chosen(think="high").think, chosen(think="off").think) == ("high", "")
    assert chosen(model=LOCAL_MODEL).is_tiny and not chosen().is_tiny


async def test_a_sessions_own_model_and_level_are_asked(house: House) -> None:
    await whole_turn(house)
    with house.tx() as tx:
        own = {"model": "x/own", "think": "low"}
        tx.execute(update(sessions).where(sessions.c.id == session.find(tx, SESSION)).values(own))
    await whole_turn(house, "two", "k2", run_id(2))
    assert [model for model, _, _ in house.model.requests] == ["test/model", "x/own"]
    assert [asking.think for asking in house.model.askings] == ["", "low"]


async def test_the_next_turn_asks_the_first_model_again(tmp_path: Any, template: Any, clean_environment: None) -> None:
    """429 never reaches the fallback model: it does, and only for as long as the turn lasts."""
    house = make_house(tmp_path / "h", template, fallback_agent_model="other/model")
    house.model.answers = [ModelFailure(Trouble.QUOTA, "spent"), "From the other.", "From the first."]
    await whole_turn(house)
    await whole_turn(house, "two", "k2", run_id(2))
    assert [model for model, _, _ in house.model.requests] == ["test/model", "other/model", "test/model"]
    await house.db.close()


# TRAPS, Context: "the friendly error text counts as an answer -> ... sub-agents fall back too".
async def test_a_sub_agent_falls_back_too(tmp_path: Any, template: Any, clean_environment: None) -> None:
    house = make_house(tmp_path / "h", template, fallback_agent_model="other/model", subagent_model="sub/model")
    conditions = await begin(house, origin="task")
    assert (conditions.model, conditions.fallback) == ("sub/model", "other/model")
    await house.db.close()


async def test_thinking_is_kept_with_its_model_and_sent_back(house: House) -> None:
    blocks = {"message": {"thinking_blocks": [{"type": "thinking", "thinking": "hm\ud800", "signature": "s"}]}}
    house.model.answers = [Completion("", wishes(("look", {})).wishes, thinking=blocks), "Done."]
    await whole_turn(house)
    (row,) = [row for row in house.rows(messages.select()) if "thinking" in row.data]
    assert row.data["model"] == "test/model"
    assert house.model.requests[1][1][2]["thinking_blocks"][0]["signature"] == "s"


def test_claude_is_not_asked_to_think_in_the_middle_of_a_turn_without_it() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "r"}
    user, note = {"role": "user", "content": "go"}, {"role": "user", "content": "[System note: hurry]"}
    claude = "anthropic/claude-sonnet-4-6"
    assert may_think(claude, [user]) and may_think(claude, [user, call, result, user])
    assert not may_think(claude, [user, call, result]) and not may_think(claude, [user, call, result, note])
    assert may_think(claude, [user, call | {"thinking_blocks": [{}]}, result])
    assert may_think("openai/gpt-5.4", [user, call, result])


async def partials(house: House, flow: Flow, *pieces: str) -> list[str]:
    seen: list[str] = []

    async def answer() -> Completion:
        listener = house.model.askings[-1].on_text
        for piece in pieces:
            if listener is not None:
                listener(piece)
            seen.append(await shown(house))
        return Completion("The whole answer.")

    house.model.answers = [answer]
    await think(house.harness, flow, ask())
    return [*seen, await shown(house)]


async def shown(house: House) -> str:
    async def stays() -> bool:
        return False

    return str((await feed(house.harness, SESSION, -1, 0, stays))["activity"]["partial"])


async def test_an_answer_is_shown_as_it_grows_and_the_step_stays_whole(house: House) -> None:
    first, second = "The beginning of a long answer", "The beginning of a long answer that goes on and on and on"
    assert await partials(house, await begin(house, channel="terminal"), "The", first, second) == [
        "",
        first,
        second,
        "",
    ]
    assert [row.text for row in house.rows(messages.select()) if row.role == "assistant"] == ["The whole answer."]


async def test_nothing_is_streamed_where_it_is_turned_off(
    tmp_path: Any, template: Any, clean_environment: None
) -> None:
    house = make_house(tmp_path / "h", template, model_stream=False)
    assert await partials(house, await begin(house, channel="terminal"), "x" * 99) == ["", ""]
    await house.db.close()


async def test_nothing_is_streamed_where_nobody_would_see_it(
    tmp_path: Any, template: Any, clean_environment: None
) -> None:
    house = make_house(tmp_path / "h", template, preview_answers=False)
    await partials(house, await begin(house), "x" * 99)
    assert house.model.askings[0].on_text is None
    await house.db.close()


@pytest.fixture(scope="module")
def client() -> Iterator[LiteLLM]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in MODEL_CLIENT_VARIABLES.items():
            patch.setenv(name, value)
        patch.setenv("OPENAI_API_KEY", "sk-test-key-for-the-fake")
        yield LiteLLM(timeout_s=10.0, local_name=LOCAL_MODEL)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own business
        yield


@pytest.fixture
async def provider(client: LiteLLM, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        monkeypatch.setattr(client, "_api_base", server.api_base)
        monkeypatch.setattr(client, "_api_base_for", "openai")
        yield server


async def streamed(
    client: LiteLLM, model: str = "openai/gpt-4o-mini", **asking: Any
) -> tuple[Completion | ModelFailure, list[str]]:
    heard: list[str] = []
    hello = [{"role": "user", "content": "hello"}]
    answer = await client.complete(model, hello, (), Asking(on_text=heard.append, **asking))
    return answer, heard


async def test_a_streamed_answer_is_the_same_as_a_whole_one(client: LiteLLM, provider: ModelServer) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
    calls = [
        {"name": "look", "arguments": {"at": "a"}, "id": "one"},
        {"name": "look", "arguments": '{"at": ', "id": "two"},
    ]
    provider.script({"text": "On it, at once and at length.", "tool_calls": calls, "usage": usage, "times": 2})
    answer, heard = await streamed(client)
    assert isinstance(answer, Completion) and heard[-1] == answer.text and len(heard) > 1
    assert provider.requests()[0]["stream"] is True
    whole = await client.complete("openai/gpt-4o-mini", [{"role": "user", "content": "hello"}])
    assert isinstance(whole, Completion) and whole.cost_usd is not None and whole.cost_usd > 0
    assert answer == whole


@pytest.mark.parametrize(
    ("entry", "trouble"),
    [
        ({"fault": "context_length"}, Trouble.OVERFLOW),
        ({"fault": "rate_limit"}, Trouble.OVERLOADED),
        ({"text": "x" * 500, "fault": "cut"}, Trouble.UNAVAILABLE),
        ({"fault": "junk"}, Trouble.UNAVAILABLE),
        ({"fault": "drop"}, Trouble.UNAVAILABLE),
    ],
)
async def test_a_stream_that_fails_is_a_value(
    client: LiteLLM, provider: ModelServer, entry: dict[str, Any], trouble: Trouble
) -> None:
    provider.script(entry | {"times": None})
    answer, _ = await streamed(client)
    assert isinstance(answer, ModelFailure) and answer.trouble is trouble


async def test_a_quick_model_does_not_stream_to_who_waits_a_little(client: LiteLLM, provider: ModelServer) -> None:
    provider.script({"text": "Here it is.", "times": None})
    for _ in range(4):
        assert isinstance((await streamed(client, "openai/quick", patience_s=30.0))[0], Completion)
    assert isinstance((await streamed(client, "openai/quick"))[0], Completion)
    assert [request.get("stream", False) for request in provider.requests()] == [True] * 3 + [False, True]


async def test_a_model_that_was_slow_once_streams_again(client: LiteLLM, provider: ModelServer) -> None:
    provider.script({"text": "Here it is.", "delay_s": 0.2, "times": None})
    for _ in range(5):
        await streamed(client, "openai/slow", patience_s=0.1)
    assert all(request["stream"] for request in provider.requests())


@pytest.mark.parametrize("streams", [False, True])
async def test_the_client_keeps_no_log_of_its_own(client: LiteLLM, provider: ModelServer, streams: bool) -> None:
    litellm = await client._load()
    noted: list[str] = []

    class Log(litellm.integrations.custom_logger.CustomLogger):  # type: ignore[name-defined,misc]
        async def async_log_success_event(self, *_: Any, **__: Any) -> None:
            noted.append("noted")

    provider.script({"text": "Here it is.", "times": None})
    litellm.callbacks.append(log := Log())
    try:
        hello = [{"role": "user", "content": "hello"}]
        asking = Asking(on_text=lambda text: None) if streams else Asking()
        assert isinstance(await client.complete("openai/fake", hello, (), asking), Completion)
        for _ in range(50):
            await asyncio.sleep(0)
    finally:
        litellm.callbacks.remove(log)
    assert noted == []


async def test_an_answer_may_repeat_itself(client: LiteLLM, provider: ModelServer) -> None:
    provider.script({"text": "x" * 5_000})
    answer, _ = await streamed(client)
    assert isinstance(answer, Completion) and answer.text == "x" * 5_000


@pytest.mark.parametrize("entry", [{"text": None}, {"text": ""}])
async def test_a_stream_of_nothing_that_ends_is_an_empty_answer(
    client: LiteLLM, provider: ModelServer, entry: dict[str, Any]
) -> None:
    provider.script(entry)
    answer, heard = await streamed(client)
    assert isinstance(answer, Completion) and (answer.text, answer.wishes, heard) == ("", (), [])


async def test_thinking_is_taken_from_an_answer_with_calls(client: LiteLLM, provider: ModelServer) -> None:
    calls = [{"name": "look", "arguments": {}, "id": "one"}]
    provider.script({"text": None, "reasoning": "I think", "tool_calls": calls, "times": None})
    for on_text in (None, lambda text: None):
        hello = [{"role": "user", "content": "hello"}]
        answer = await client.complete("openai/fake", hello, (), Asking(on_text=on_text))
        assert isinstance(answer, Completion)
        assert answer.thinking == {"message": {"reasoning_content": "I think"}}
    assert thinking_of(object()) is None


async def test_what_is_known_of_models_is_known_offline(client: LiteLLM) -> None:
    claude = await client.facts("anthropic/claude-sonnet-4-6")
    assert claude.window >= 200_000 and claude.max_output >= 8_000
    assert claude.input_usd and claude.output_usd and claude.output_usd > claude.input_usd
    assert await client.facts("nobody/knows-this") == Facts()
    assert (await client.facts(LOCAL_MODEL)).window == 8_192
    assert (await client.facts("openai/gpt-4o")).window == (await client.facts("gpt-4o")).window > 0
