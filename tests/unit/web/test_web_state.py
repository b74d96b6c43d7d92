"""The state document: a fresh one and a busy one are as the schema in docs/ says; and a beat at once."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from sqlalchemy import insert

from app.sessions import tasks
from app.tables import approvals
from app.web.api import api_router, explain_errors
from app.web.state import _watching, beat_now, state
from app.work import ledger, supervision, wakes
from app.work.observation import Kind, Observation
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.core.rules import ROOT
from tests.unit.house import RUN, SESSION, House, begin
from tests.unit.work.goal_house import make, put_pipeline

SCHEMA = json.loads((ROOT / "docs" / "state.schema.json").read_text())


def faults(document: Any) -> list[str]:
    return [f"{list(fault.path)}: {fault.message}" for fault in Draft202012Validator(SCHEMA).iter_errors(document)]


def document(house: House) -> dict[str, Any]:
    with house.tx() as tx:
        found: dict[str, Any] = json.loads(json.dumps(state(tx, house.harness, _watching(house.harness))))
    return found


async def make_busy(house: House) -> None:
    flow = await begin(house)
    house.harness.workspace.seed()
    source = house.harness.workspace.root / "talk.txt"
    source.write_text("Good evening.")
    await make(house, "podcast_from_transcript", source)
    now = house.clock.now()
    common: dict[str, Any] = {"session_id": flow.session_id, "run_id": RUN}
    wake = wakes.Wake(
        id="w1", session_key=SESSION, step_key="tool#0.0", reason="the news", zone="Europe/Paris", cron="0 9 * * *",
        due_at=now + timedelta(hours=20), channel="test", destination={"chatId": "7"}, created_at=now, **common,
    )  # fmt: skip
    asked = {"id": "K3F9", "step_key": "tool#0.1", "kind": "approval", "tool": "push", "digest": "d"}
    request = {"arguments": {"what": "a"}, "folder": "/w", "critical": False}
    asked |= {"request": request, "state": "pending", "created_at": now, "expires_at": now}
    with house.tx() as tx:
        wakes.add(tx, wake)
        tasks.add(
            tx, "t1", step_key="tool#0.2", mode="scheduled", task="count", model=None, due_at=now, now=now, **common
        )
        tx.execute(insert(approvals).values(asked | common))
        begun = Observation("build", Kind.STARTED, "k1", now, "owner", data={"goal": "build it", "steps": ["a", "b"]})
        ledger.append(tx, begun.checked())
        supervision.begin(tx, "build", owner_key=SESSION, now=now)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_a_fresh_one(house: House) -> None:
    found = document(house)
    assert faults(found) == []
    assert found["beat"]["last"] is None and found["beat"]["next"] == "2026-01-05T12:30:00+00:00"
    assert [found[name] for name in ("goals", "tasks", "wakes", "approvals", "calls", "watch", "faults")] == [[]] * 7


def test_what_is_wrong_with_the_files_of_people_is_named(house: House) -> None:
    root = house.harness.workspace.root
    root.mkdir(exist_ok=True)
    (root / "watch.yaml").write_text("folders: [{path: in, pattern: '*.txt', pipeline: nope}]")
    put_pipeline(house, "broken", "steps: 1")
    found = document(house)
    assert faults(found) == [] and found["watch"] == []
    watch, pipeline = found["faults"]
    assert "watch.yaml: folder 1: pipeline: there is no 'nope'" in watch and "pipelines/broken.yaml" in pipeline


async def test_a_busy_one(house: House) -> None:
    await make_busy(house)
    found = document(house)
    assert faults(found) == []
    assert {(task["id"], task["kind"]) for task in found["tasks"]} == {("build", "tracked"), ("t1", "scheduled")}
    assert found["wakes"][0]["reason"] == "the news" and found["approvals"][0]["tool"] == "push"
    (goal,) = found["goals"]
    assert goal["pipeline"] == "podcast_from_transcript" and len(goal["steps"]) > 3
    assert [watch["pipeline"] for watch in found["watch"]] == ["podcast_from_audio", "podcast_from_transcript"]
    (tracked,) = [task for task in found["tasks"] if task["kind"] == "tracked"]
    assert tracked["sessionKey"] == SESSION


async def test_the_schema_sees_what_is_missing_and_what_is_new(house: House) -> None:
    await make_busy(house)
    whole = document(house)
    for name in whole:
        assert faults({key: value for key, value in whole.items() if key != name}) != []
    assert faults(whole | {"more": 1}) != []
    assert faults(whole | {"at": "yesterday"}) != []


async def test_it_is_served(house: House) -> None:
    app = FastAPI()
    explain_errors(app)
    app.include_router(api_router(house.harness, None, "embedded"))  # type: ignore[arg-type]  # no runs are asked for
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        assert (await http.get("/api/state")).json() == document(house)
        assert (await http.post("/api/heartbeat")).json() == {"last": None}
        house.sender.broken = True
        refused = await http.post("/api/heartbeat")
    assert refused.status_code == 503 and "does not take events" in refused.json()["error"]


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, heartbeat_cron="0 0 1 1 *") as one:
        yield one


async def test_a_beat_at_once(life: Embedded) -> None:
    for _ in range(2):
        await beat_now(life.house.harness)
        await life.link.engine.idle()
    assert [run.status for run in await life.runs("heartbeat")] == ["Completed"] * 2
    assert document(life.house)["beat"]["last"] == life.clock.now().isoformat()
