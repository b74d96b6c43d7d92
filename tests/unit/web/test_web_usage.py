"""What models cost over the HTTP API, and as a table for people."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from app.agent.models.llm import Completion
from app.cli.runs_text import usage_table
from app.sessions import usage
from app.sessions.usage import Price
from app.web.api import api_router, explain_errors
from app.web.runs import RemoteRuns
from tests.unit.house import SESSION, House, make_house, run_id, whole_turn


@pytest.fixture
async def house(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "house", template, timezone="Asia/Tokyo", budget_day_tokens=9_000_000)
    yield built
    await built.db.close()


@pytest.fixture
async def http(house: House) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    explain_errors(app)
    app.include_router(api_router(house.harness, RemoteRuns(), "test"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def test_usage_by_session_model_and_day(house: House, http: httpx.AsyncClient) -> None:
    house.model.answers = [Completion("Hi.", input_tokens=1_000, output_tokens=20, cost_usd=0.25)]
    await whole_turn(house)
    with house.tx() as tx:
        late = datetime.combine(house.clock.now().date(), datetime.min.time(), UTC).replace(hour=1)
        usage.settle(tx, "GONE", run_id(9), "think#0", Price("other/model", 5, 5), late)
    found = (await http.get("/api/usage")).json()
    assert [row["name"] for row in found["rows"]] == [SESSION, "GONE"]
    assert found["rows"][0] | {"name": ""} == {
        "name": "",
        "calls": 1,
        "input_tokens": 1_000,
        "output_tokens": 20,
        "cost_usd": 0.25,
        "unpriced": 0,
    }
    assert found["total"]["calls"] == 2 and found["total"]["unpriced"] == 1
    by_model = (await http.get("/api/usage", params={"by": "model"})).json()
    assert [row["name"] for row in by_model["rows"]] == ["test/model", "other/model"]
    by_day = (await http.get("/api/usage", params={"by": "day"})).json()
    local = house.harness.daily_log.local(house.clock.now())
    assert by_day["rows"][0]["name"] == f"{local:%Y-%m-%d}"
    refused = await http.get("/api/usage", params={"by": "moon"})
    assert (refused.status_code, refused.json()) == (
        422,
        {"error": "by: Input should be 'session', 'day' or 'model'."},
    )


async def test_usage_as_a_table(house: House, http: httpx.AsyncClient) -> None:
    empty = usage_table((await http.get("/api/usage")).json())
    assert "Budgets: turn 2,000,000 tokens and $5.00; day 9,000,000 tokens and $50.00." in empty
    house.model.answers = [Completion("Hi.", input_tokens=1_000, output_tokens=20)]
    await whole_turn(house)
    table = usage_table((await http.get("/api/usage")).json())
    lines = [line.split() for line in table.splitlines()]
    assert lines[0] == ["SESSION", "CALLS", "TOKENS", "IN", "TOKENS", "OUT", "COST"]
    assert lines[1] == [SESSION, "1", "1,000", "20", "$0.0000", "(1", "without", "a", "price)"]
    assert lines[2][:2] == ["total", "1"]
