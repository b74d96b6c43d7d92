"""Learnings as the operator sees and decides them over the API."""

from typing import Any, Literal

from fastapi import APIRouter

from app.agent.harness import Harness
from app.agent.heartbeat.learned import drop, promote
from app.db import Tx
from app.memory import learnings

Verdict = Literal["promote", "drop"]


def learnings_router(harness: Harness) -> APIRouter:
    """`GET /api/learnings`, `POST /api/learnings/{id}/promote` and `…/drop`."""
    router = APIRouter()

    @router.get("/api/learnings")
    async def list_learnings() -> dict[str, Any]:
        return {"learnings": await harness.db.read(all_learnings)}

    @router.post("/api/learnings/{learning_id}/{verdict}")
    async def decide(learning_id: str, verdict: Verdict) -> dict[str, Any]:
        body = promote if verdict == "promote" else drop
        return {"id": learning_id, "text": await body(harness, learning_id)}

    return router


def all_learnings(tx: Tx) -> list[dict[str, Any]]:
    """Those that are not dropped, what was found most often first."""
    return [
        {
            "id": one.id,
            "scope": one.scope,
            "text": one.text,
            "count": one.count,
            "state": one.state,
            "firstAt": one.first_at.isoformat(),
            "lastAt": one.last_at.isoformat(),
        }
        for one in learnings.listed(tx)
    ]
