"""What does not reach its chat, and why, as the operator sees it over the API."""

from typing import Any

from fastapi import APIRouter, Query
from sqlalchemy import select

from app.agent.harness import Harness
from app.db import Tx, moment
from app.tables import deliveries, sessions

STUCK = ("pending", "sending", "failed", "unknown", "expired")
SHOWN_CHARS = 80
MAX_ROWS = 200


def deliveries_router(harness: Harness) -> APIRouter:
    router = APIRouter()

    @router.get("/api/deliveries")
    async def list_deliveries(every: bool = Query(default=False, alias="all")) -> dict[str, Any]:
        """Parts that are not delivered, newest first; with `all`, also those that are."""
        return {"deliveries": await harness.db.read(_listed, every)}

    return router


def _listed(tx: Tx, every: bool) -> list[dict[str, Any]]:
    query = (
        select(deliveries, sessions.c.key.label("session_key"))
        .join(sessions, sessions.c.id == deliveries.c.session_id)
        .order_by(deliveries.c.id.desc())
        .limit(MAX_ROWS)
    )
    if not every:
        query = query.where(deliveries.c.state.in_(STUCK))
    return [_shown(row) for row in tx.execute(query).all()]


def _shown(row: Any) -> dict[str, Any]:
    text = " ".join((row.text or str(row.part.get("text", ""))).split())
    return {
        "key": row.key,
        "chat": row.chat_key,
        "kind": row.kind,
        "state": row.state,
        "attempts": row.attempts,
        "reason": row.reason,
        "notBefore": _time(row.not_before),
        "createdAt": _time(row.created_at),
        "sessionKey": row.session_key,
        "runId": row.run_id,
        "text": text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…",
    }


def _time(value: Any) -> str | None:
    at = moment(value)
    return at.isoformat() if at is not None else None
