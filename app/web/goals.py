"""Goals and pipelines over the API: what `moab goals` and `moab pipeline` show and order."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from app.agent.goals.goal import TOO_SMALL, GoalWish, make_goal
from app.agent.goals.orders import cancel_goal, list_goals, retry_goal, show_goal
from app.agent.goals.watched import watching_of
from app.agent.harness import Harness
from app.errors import BadInput
from app.ids import new_id
from app.sessions import session
from app.work.watching import FILE

ENDED = ("COMPLETED", "FAILED_PERMANENT", "CANCELLED")
LONGEST_WAIT_S = 600


class Wanted(BaseModel):
    """The body of `POST /api/goals`. `source` is a whole path on the machine of the service; a repeat under the same
    `key` makes no second goal, and neither does the same content, unless `again`.
    """

    model_config = ConfigDict(extra="forbid")

    pipeline: Annotated[str, Field(min_length=1, max_length=40)]
    source: Annotated[str, Field(max_length=4_096)] = ""
    title: Annotated[str, Field(max_length=200)] = ""
    session: Annotated[str, Field(max_length=200)] | None = None
    key: Annotated[str, Field(max_length=200)] = ""
    again: bool = False


def goals_router(harness: Harness) -> APIRouter:
    router = APIRouter(prefix="/api")

    @router.get("/pipelines")
    async def pipelines() -> dict[str, Any]:
        return await asyncio.to_thread(_shelf, harness)

    @router.get("/goals")
    async def goals(limit: Annotated[int, Query(ge=1, le=1000)] = 20, only_open: bool = False) -> dict[str, Any]:
        return {"goals": await harness.db.read(list_goals, limit, only_open)}

    @router.post("/goals")
    async def begin(wanted: Wanted) -> dict[str, Any]:
        return await _begin(harness, wanted)

    @router.get("/goals/{goal_id}")
    async def goal(goal_id: str, wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT_S)] = 0) -> dict[str, Any]:
        return await _settled(harness, goal_id, wait)

    @router.post("/goals/{goal_id}/cancel")
    async def cancel(goal_id: str) -> dict[str, Any]:
        return {"text": await cancel_goal(harness, goal_id)}

    @router.post("/goals/{goal_id}/retry")
    async def retry(goal_id: str) -> dict[str, Any]:
        return {"text": await retry_goal(harness, goal_id)}

    return router


def _shelf(harness: Harness) -> dict[str, Any]:
    shelf = harness.library.look()
    found = [
        {
            "name": name,
            "description": pipeline.description,
            "accepts": list(pipeline.accepts),
            "steps": [{"id": step.id, "action": step.action, "needs": list(step.needs)} for step in pipeline.steps],
        }
        for name, pipeline in sorted(shelf.pipelines.items())
    ]
    faults = watching_of(harness, shelf).faults
    waiting = {
        name: f"{name} {TOO_SMALL}"
        for name, pipeline in shelf.pipelines.items()
        if pipeline.needs_model and harness.settings.is_local_model
    }
    return {"pipelines": found, "faults": {**shelf.faults, **waiting, **({FILE: "; ".join(faults)} if faults else {})}}


async def _begin(harness: Harness, wanted: Wanted) -> dict[str, Any]:
    if wanted.source and not Path(wanted.source).is_absolute():
        raise BadInput(f"source: {wanted.source!r} is not a whole path, such as /home/me/talk.mp3.")
    wish = GoalWish(
        pipeline=wanted.pipeline,
        identity=f"api:{wanted.key or new_id(harness.clock)}",
        source=wanted.source,
        title=wanted.title,
        session_id=await harness.db.read(session.find, wanted.session) if wanted.session else None,
        again=wanted.again,
    )
    made = await make_goal(harness, wish)
    return {"fresh": made.fresh, "goal": await harness.db.read(show_goal, made.goal.id)}


async def _settled(harness: Harness, goal_id: str, wait_s: float) -> dict[str, Any]:
    """The goal once it has come to its end, at the latest in `wait_s` seconds."""
    until = harness.clock.now().timestamp() + wait_s
    while True:
        shown = await harness.db.read(show_goal, goal_id)
        left = until - harness.clock.now().timestamp()
        if shown["life"] in ENDED or left <= 0 or harness.notifier.closed:
            return {"goal": shown}
        await harness.notifier.wait(f"goal:{goal_id}", min(left, 1.0))
