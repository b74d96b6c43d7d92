"""Approvals over the HTTP API: what waits, and the operator's decision, which always counts."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from app.engines import EngineLink
from app.web.api import api_router, explain_errors
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import SESSION, message, wishes


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    push = wishes(("push", {"what": "a"}))
    async with embedded(tmp_path / "house", template, push, "Done.", tool_policy="push=ask") as one:
        yield one


@pytest.fixture
async def http(life: Embedded) -> AsyncIterator[httpx.AsyncClient]:
    link: EngineLink = life.link
    app = FastAPI()
    explain_errors(app)
    app.include_router(api_router(life.house.harness, link.runs, link.name))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def test_what_waits_is_listed_and_decided(life: Embedded, http: httpx.AsyncClient) -> None:
    assert (await http.get("/api/approvals")).json() == {"approvals": []}
    await life.send(message())
    (row,) = (await http.get("/api/approvals")).json()["approvals"]
    assert (row["tool"], row["arguments"], row["kind"]) == ("push", '{"what": "a"}', "approval")
    assert (row["sessionKey"], row["requester"]) == (SESSION, "test")

    decided = await http.post(f"/api/approvals/{row['id'].lower()}", json={"decision": "approve"})
    await life.link.engine.idle()

    text = f"The request to run push ({row['id']}) was approved by the operator."
    assert decided.json() == {"id": row["id"], "done": True, "text": text}
    assert life.house.log == ["push a"] and life.house.channel.sent[-1] == "Done."
    again = await http.post(f"/api/approvals/{row['id']}", json={"decision": "deny"})
    assert again.json() == {"id": row["id"], "done": False, "text": text}
    assert (await http.get("/api/approvals")).json() == {"approvals": []}


async def test_what_is_not_there_or_does_not_fit(http: httpx.AsyncClient) -> None:
    assert (await http.post("/api/approvals/NOTHING", json={"decision": "approve"})).status_code == 404
    assert (await http.post("/api/approvals/NOTHING", json={"decision": "perhaps"})).status_code == 422
