"""Runs as the operator asks for them: by a part of their id, by a function's short name, and the conversations."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from app.cli.runs_text import runs_table, sessions_table
from app.web.api import api_router, explain_errors
from app.web.runs import EmbeddedRuns
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template) as one:
        yield one


@pytest.fixture
async def http(life: Embedded) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    explain_errors(app)
    app.include_router(api_router(life.house.harness, EmbeddedRuns(life.link.engine), "embedded"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def test_runs_are_found_by_short_names_and_the_beginning_of_their_id(
    life: Embedded, http: httpx.AsyncClient
) -> None:
    await life.send(message("hello", "test:7:1"))
    [run] = (await http.get("/api/runs?function=handle-message&status=completed")).json()["runs"]
    assert run["function"] == "moab-handle-message" and "." not in runs_table([run | {"endedAt": None}])
    same = (await http.get("/api/runs?function=moab-handle-message&status=Completed")).json()["runs"]
    assert [one["id"] for one in same] == [run["id"]]

    assert (await http.get(f"/api/runs/{run['id'].lower()}")).json()["run"]["outcome"] == "done"
    while life.clock.now().second > 50:
        await life.pass_time(5, 5)
    life.clock.advance(3)  # no beat by the clock now: runs of one moment differ in their last letters only
    await life.link.engine.send([{"name": "agent.turn.ended", "data": {"sessionKey": "test:7", "turnId": "none"}}])
    await life.link.engine.idle()
    beat = (await http.get("/api/runs?function=heartbeat")).json()["runs"][0]
    shown = (await http.get(f"/api/runs/{beat['id'][:12].lower()}")).json()
    assert shown.get("run", shown).get("id") == beat["id"], shown
    several = await http.get(f"/api/runs/{run['id'][:4]}")
    assert several.status_code == 400 and "Several runs begin with" in several.json()["error"]
    for path, said in (
        ("runs?function=nope", "accepted: acknowledge, failure-handler, handle-message, heartbeat"),
        ("runs?status=lost", "Completed"),
        ("runs/01NONE", "There is no run"),
    ):
        assert said in (await http.get(f"/api/{path}")).json()["error"]


async def test_conversations_are_listed_the_last_one_first(life: Embedded, http: httpx.AsyncClient) -> None:
    assert sessions_table((await http.get("/api/sessions")).json()["sessions"]) == "No conversations."
    for number, key in enumerate(("test:7", "test:8", "task:T1"), 1):
        await life.send(message("hello", f"{key}:{number}", session_key=key))
    found = (await http.get("/api/sessions")).json()["sessions"]
    assert [(one["key"], one["messages"]) for one in found] == [("test:8", 2), ("test:7", 2)]
    assert (await http.get("/api/sessions?limit=1")).json()["sessions"] == found[:1]
    assert sessions_table(found).splitlines()[1].split()[:2] == ["test:8", "2"]
