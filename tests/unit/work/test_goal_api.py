"""Goals and pipelines over the API, and as the command line prints them."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.cli import goals_text
from app.config import LOCAL_MODEL
from app.web.api import explain_errors
from app.web.goals import goals_router
from tests.unit.house import House
from tests.unit.work.goal_house import Engine, put_pipeline


@pytest.fixture
async def api(goal_house: House) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    explain_errors(app)
    app.include_router(goals_router(goal_house.harness))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        yield client


async def asked(api: httpx.AsyncClient, method: str, path: str, status: int = 200, **more: Any) -> dict[str, Any]:
    answer = await api.request(method, path, **more)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_goal_is_begun_shown_and_listed(
    api: httpx.AsyncClient, goal_house: House, engine: Engine, recording: Path
) -> None:
    body = {"pipeline": "podcast_from_audio", "source": str(recording), "key": "one"}
    begun = await asked(api, "POST", "/api/goals", json=body)
    again = await asked(api, "POST", "/api/goals", json=body)
    assert (begun["fresh"], again["fresh"]) == (True, False) and begun["goal"]["id"] == again["goal"]["id"]
    await engine.run()

    goal = (await asked(api, "GET", f"/api/goals/{begun['goal']['id']}?wait=5"))["goal"]
    assert goal["life"] == "COMPLETED" and json.dumps(goal)
    page = goals_text.goal_page(goal)
    assert "wiki/raw/2026-01-05-the-blue-sky.md" in page and "transcribe" in page
    table = goals_text.goals_table((await asked(api, "GET", "/api/goals"))["goals"])
    assert table.splitlines()[1].split()[:4] == [goal["id"], "COMPLETED", "10/10", "podcast_from_audio"]
    assert (await asked(api, "GET", "/api/goals?only_open=true"))["goals"] == []
    assert goals_text.goals_table([]) == "No goals."


async def test_orders_and_their_refusals(api: httpx.AsyncClient, goal_house: House, recording: Path) -> None:
    body = {"pipeline": "podcast_from_audio", "source": str(recording)}
    goal_id = (await asked(api, "POST", "/api/goals", json=body))["goal"]["id"]
    refused = await asked(api, "POST", f"/api/goals/{goal_id}/retry", 400)
    assert "only what failed is tried again" in refused["error"]
    assert (await asked(api, "POST", f"/api/goals/{goal_id}/cancel"))["text"] == f"{goal_id} is cancelled."
    assert "has ended already" in (await asked(api, "POST", f"/api/goals/{goal_id}/cancel", 404))["error"]
    assert (await asked(api, "GET", "/api/goals/gnone", 404))["error"] == "There is no goal gnone."
    relative = await asked(api, "POST", "/api/goals", 400, json={"pipeline": "podcast_from_audio", "source": "a.mp3"})
    assert "is not a whole path" in relative["error"]
    await asked(api, "POST", "/api/goals", 422, json={"pipeline": "podcast_from_audio", "colour": "red"})


async def test_pipelines_are_listed_with_the_faults_of_others(api: httpx.AsyncClient, goal_house: House) -> None:
    put_pipeline(goal_house, "broken", "steps: nonsense")
    found = await asked(api, "GET", "/api/pipelines")
    assert [one["name"] for one in found["pipelines"]] == ["podcast_from_audio", "podcast_from_transcript"]
    page = goals_text.pipelines_page(found)
    assert "    transcribe -> summary -> page -> topics" in page
    assert "Refused: pipelines/broken.yaml: steps: accepted is a list of steps" in page
    (goal_house.harness.workspace.root / "watch.yaml").write_text(
        "folders:\n  - {path: a, pattern: x, pipeline: lost}\n"
    )
    page = goals_text.pipelines_page(await asked(api, "GET", "/api/pipelines"))
    assert "Refused: watch.yaml: folder 1: pipeline: there is no 'lost'; accepted: podcast_from_audio" in page


async def test_pipelines_that_wait_for_a_real_model_are_named(goal_house: House) -> None:
    settings = goal_house.harness.settings.model_copy(update={"agent_model": LOCAL_MODEL})
    app = FastAPI()
    app.include_router(goals_router(replace(goal_house.harness, settings=settings)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        faults = (await asked(client, "GET", "/api/pipelines"))["faults"]
    assert set(faults) == {"podcast_from_audio", "podcast_from_transcript"}
    assert "needs a real model" in goals_text.pipelines_page({"pipelines": [], "faults": faults})
