"""Paused calls over the API: what waits for a result from outside, and the result."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from app.agent.harness import Harness
from app.agent.outside import give_result, open_calls


class Result(BaseModel):
    """The body of `POST /api/calls/{id}/result`: text, or any JSON; `ok` false if the work failed."""

    model_config = ConfigDict(extra="forbid")

    result: Annotated[str, Field(max_length=1_000_000)] | dict[str, Any] | list[Any] | int | float | bool | None
    ok: bool = True


def calls_router(harness: Harness) -> APIRouter:
    """`GET /api/calls`, `POST /api/calls/{id}/result`."""
    router = APIRouter()

    @router.get("/api/calls")
    async def waiting() -> dict[str, Any]:
        return {"calls": await harness.db.read(open_calls)}

    @router.post("/api/calls/{call_id}/result")
    async def give(call_id: str, result: Result) -> dict[str, Any]:
        given = await give_result(harness, call_id, result.result, result.ok)
        return {"id": call_id.upper(), "done": given.done, "text": given.text}

    return router
