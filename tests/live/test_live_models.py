"""A tool round trip with real models, once for each provider's format. Needs keys, the network, and some cents.

    LIVE_MODELS="anthropic/claude-sonnet-4-6 openai/gpt-5.4 gemini/gemini-pro-latest" pytest tests/live

Keys are taken from the environment as each provider names them (ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY).
"""

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.loop import run_turn
from app.agent.models.llm import Asking, Completion, LiteLLM
from app.agent.turn import bodies_of
from app.config import MODEL_CLIENT_VARIABLES
from app.tables import calls, usage
from tests.unit.house import DirectSteps, House, begin, make_house, make_template

MODELS = os.environ.get("LIVE_MODELS", "").replace(",", " ").split()
WHY_NOT = "LIVE_MODELS names no model, such as LIVE_MODELS='anthropic/claude-sonnet-4-6 openai/gpt-5.4'"
TASK = "Call the tool `look` once with at set to the word attic. Then answer with one short sentence on what it saw."

pytestmark = [
    pytest.mark.skipif(not MODELS, reason=WHY_NOT),
    pytest.mark.filterwarnings("ignore"),  # the client library's own business
]


@pytest.fixture(params=MODELS or ["none"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client() -> Iterator[LiteLLM]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in MODEL_CLIENT_VARIABLES.items():
            patch.setenv(name, value)
        yield LiteLLM(timeout_s=120.0)


def live_house(folder: Path, model: str, client: LiteLLM, **settings: Any) -> House:
    template = make_template(folder / "template.db")
    house = make_house(folder / "house", template, agent_model=model, **settings)
    return replace(house, harness=replace(house.harness, llm=client))


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("level", ["", "low"], ids=["plain", "thinking"])
async def test_a_tool_round_trip(tmp_path: Path, model: str, client: LiteLLM, stream: bool, level: str) -> None:
    house = live_house(tmp_path, model, client, model_stream=stream)
    conditions = (await begin(house, TASK)).model_copy(update={"model": model, "think": level})
    ending = await run_turn(DirectSteps(house), bodies_of(house.harness, conditions), conditions)
    assert ending.kind == "answered", ending
    assert house.log == ["look attic"]
    (call,) = house.rows(calls.select())
    assert (call.name, call.state, call.result) == ("look", "finished", "saw attic")
    counted = house.rows(usage.select())
    assert len(counted) == 2 and all(row.input_tokens > 0 and row.output_tokens > 0 for row in counted)
    await house.db.close()


async def test_a_refused_key_is_told_apart(model: str, client: LiteLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{model.partition('/')[0].upper()}_API_KEY", "sk-not-a-key")
    answer = await client.complete(model, [{"role": "user", "content": "hello"}], (), Asking())
    assert not isinstance(answer, Completion) and answer.trouble in ("rejected", "invalid")
