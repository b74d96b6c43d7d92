"""step.ai.infer: the engine makes the call of a model, memoizes its answer, retries its failures, keeps its key."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fastapi
import httpx
import inngest
import pytest
from inngest.experimental import ai
from inngest.experimental.ai import gemini

from app.engine.gateway import MAX_ANSWER_BYTES
from tests.engine.lab import Lab, running
from tests.engine.workshop import GO

_KEY = "sk-very-secret"
_ANSWER = {"choices": [{"message": {"content": "hello"}}], "usage": {"total_tokens": 7}}


class FakeModel:
    """A model's HTTP API that answers from a list and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.app = fastapi.FastAPI()
        self.app.add_api_route("/{path:path}", self._answer, methods=["POST"])

    async def _answer(self, request: fastapi.Request) -> fastapi.Response:
        self.asked.append((str(request.url), dict(request.headers), await request.json()))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return fastapi.Response(content, status, media_type="application/json")


class Asks:
    """A function that asks a model once."""

    def __init__(self, adapter: Any = None, retries: int = 1) -> None:
        self._adapter = adapter or ai.openai.Adapter(auth_key=_KEY, base_url="http://model.test/v1", model="m-1")
        self._retries = retries

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="asks", trigger=GO, retries=self._retries)
        async def asks(ctx: inngest.Context) -> Any:
            try:
                return await ctx.step.ai.infer("ask", adapter=self._adapter, body={"messages": [{"content": "hi"}]})
            except inngest.StepError as error:
                return {"name": error.name, "message": error.message, "stack": error.stack}

        return [asks]


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Any]:
    labs: list[Any] = []

    async def ask(model: FakeModel, asks: Asks | None = None) -> tuple[Lab, str]:
        context = running(tmp_path / "engine.db", (asks or Asks()).build)
        lab = await context.__aenter__()
        labs.append(context)
        lab.engine._http_client = httpx.AsyncClient(transport=httpx.ASGITransport(model.app))
        return lab, await lab.send("go")

    yield ask
    for context in labs:
        await context.__aexit__(None, None, None)


async def test_the_answer_is_the_steps_output(asked: Any) -> None:
    model = FakeModel((200, _ANSWER))
    lab, event_id = await asked(model)

    run = await lab.run_of(event_id)
    assert run.run.output == _ANSWER
    assert [(step.op, step.name, step.output) for step in run.steps] == [("AIGateway", "ask", _ANSWER)]
    ((url, headers, body),) = model.asked
    assert url == "http://model.test/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {_KEY}"
    assert body == {"messages": [{"content": "hi"}], "model": "m-1"}
    memo = lab.calls_of("rec-asks")[-1].body["steps"]
    assert list(memo.values()) == [{"data": _ANSWER}]


@pytest.mark.parametrize(
    ("adapter", "header", "query"),
    [
        (ai.anthropic.Adapter(auth_key=_KEY, model="m", base_url="http://model.test/v1"), ("x-api-key", _KEY), ""),
        (gemini.Adapter(auth_key=_KEY, model="m", base_url="http://model.test/v1"), None, f"key={_KEY}"),
        (ai.openai.Adapter(auth_key=_KEY, model="m", base_url="http://model.test", headers={"X-Org": "o"}),
         ("x-org", "o"), ""),
    ],
)  # fmt: skip
async def test_the_key_travels_as_the_format_says(asked: Any, adapter: Any, header: Any, query: str) -> None:
    model = FakeModel((200, _ANSWER))
    await asked(model, Asks(adapter))

    ((url, headers, _),) = model.asked
    assert header is None or headers[header[0]] == header[1]
    assert url.partition("?")[2] == query


async def test_failures_are_tried_again(asked: Any) -> None:
    model = FakeModel((503, {"error": "overloaded"}), (200, _ANSWER))
    lab, event_id = await asked(model)
    await lab.pass_time(30, step_s=5)

    run = await lab.run_of(event_id)
    assert run.run.output == _ANSWER
    assert len(model.asked) == 2
    (failed,) = run.steps[0].failures
    assert failed.error["message"] == "Error making AI request: unsuccessful status code: 503"
    assert len(lab.calls_of("rec-asks")) == 2, "the app is not called for a retry"


async def test_the_last_failure_is_the_steps_error(asked: Any) -> None:
    lab, event_id = await asked(FakeModel((401, {"error": "no such key"})), Asks(retries=0))

    output = (await lab.run_of(event_id)).run.output
    assert output["name"] == "AIGatewayError"
    assert output["message"] == "Error making AI request: unsuccessful status code: 401"
    assert json.loads(output["stack"]) == {"error": "no such key"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, b"<html>"), "the answer is not JSON"),
        ((200, b"x" * (MAX_ANSWER_BYTES + 1)), f"the answer has more than {MAX_ANSWER_BYTES} bytes"),
        ((302, b""), "unsuccessful status code: 302"),
    ],
)
async def test_answers_that_make_no_sense(asked: Any, answer: Any, reason: str) -> None:
    lab, event_id = await asked(FakeModel(answer), Asks(retries=0))

    assert (await lab.run_of(event_id)).run.output["message"].endswith(reason)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://model.test", "//model.test", "http://"])
async def test_only_http_is_spoken(asked: Any, url: str) -> None:
    model = FakeModel((200, _ANSWER))
    adapter = ai.openai.Adapter(auth_key=_KEY, base_url=url, model="m")
    lab, event_id = await asked(model, Asks(adapter, retries=0))

    assert "no http(s) address" in (await lab.run_of(event_id)).run.output["message"]
    assert model.asked == []


async def test_a_model_that_is_down(tmp_path: Path) -> None:
    adapter = ai.openai.Adapter(auth_key=_KEY, base_url="http://127.0.0.1:9", model="m")
    async with running(tmp_path / "engine.db", Asks(adapter, retries=0).build) as lab:
        output = (await lab.run_of(await lab.send("go"))).run.output

    assert output["name"] == "AIGatewayError"
    assert "Error making AI request" in output["message"]


async def test_the_key_is_shown_to_nobody_and_not_kept(asked: Any) -> None:
    adapter = ai.openai.Adapter(
        auth_key=_KEY, base_url="http://model.test", model="m", headers={"X-Api-Key": _KEY, "X-Org": "o"}
    )
    lab, event_id = await asked(FakeModel((500, {}), (200, _ANSWER)), Asks(adapter))

    waiting = (await lab.run_of(event_id)).steps[0]
    assert waiting.status == "Open"
    assert _KEY not in repr(waiting.input)
    assert waiting.input["headers"]["X-Org"] == "o"
    await lab.pass_time(30, step_s=5)
    assert (await lab.run_of(event_id)).run.status == "Completed"
    rows = await lab.engine.store.rows("SELECT * FROM steps")
    assert all(_KEY not in str(tuple(row)) for row in rows), "once it is over"


async def test_an_inference_survives_a_restart(tmp_path: Path) -> None:
    path, asks, model = tmp_path / "engine.db", Asks(), FakeModel((500, {}), (200, _ANSWER))
    async with running(path, asks.build) as lab:
        lab.engine._http_client = httpx.AsyncClient(transport=httpx.ASGITransport(model.app))
        event_id = await lab.send("go")
    async with running(path, asks.build, clock=lab.clock) as again:
        again.engine._http_client = httpx.AsyncClient(transport=httpx.ASGITransport(model.app))
        await again.pass_time(30, step_s=5)

        assert (await again.run_of(event_id)).run.output == _ANSWER
        assert model.asked[1][1]["authorization"] == f"Bearer {_KEY}"
