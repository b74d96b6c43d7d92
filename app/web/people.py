"""Who may talk to the agent, as the operator sees and changes it over the API."""

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from app.agent.gate import make_code
from app.agent.harness import Harness
from app.db import Tx, moment
from app.errors import NotFound
from app.sessions import people


class Invited(BaseModel):
    """The body of `POST /api/people/codes`."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["admin", "member"] = "member"


def people_router(harness: Harness) -> APIRouter:
    router = APIRouter()

    @router.get("/api/people")
    async def list_people() -> dict[str, Any]:
        return {"people": await harness.db.read(_listed)}

    @router.post("/api/people/codes")
    async def invite(body: Invited) -> dict[str, Any]:
        code, until = await harness.db.write(make_code, harness, body.role, "the operator")
        return {"code": code, "until": until, "role": body.role}

    @router.post("/api/people/{person_id}/revoke")
    async def revoke(person_id: str) -> dict[str, Any]:
        await harness.db.write(_revoke, harness, person_id)
        return {"id": person_id, "state": people.State.REVOKED}

    return router


def _listed(tx: Tx) -> list[dict[str, Any]]:
    return [
        {
            "id": row.id,
            "kind": row.kind,
            "state": row.state,
            "role": row.role,
            "name": row.name,
            "username": row.username,
            "language": row.language,
            "timezone": row.timezone,
            "since": found.isoformat() if (found := moment(row.paired_at or row.created_at)) is not None else None,
            "by": row.paired_by,
        }
        for row in people.listed(tx)
    ]


def _revoke(tx: Tx, harness: Harness, person_id: str) -> None:
    channel, _, number = person_id.partition(":")
    if channel not in harness.settings.allow_lists or not number:
        raise NotFound(f"There is nobody called {person_id}; accepted: channel:id, as `moab people` lists them.")
    people.revoke(tx, person_id, harness.clock.now())
