"""Tracked tasks over the API: what `moab task` and programs outside write down and read."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from app.agent.announce import announce
from app.agent.delegation.answered import answer, observed
from app.agent.delegation.supervise import run_monitor
from app.agent.harness import Harness
from app.db import Tx
from app.ids import new_id
from app.work import overview, tracking
from app.work.observation import Branch, Kind, Observation
from app.work.supervision import Limits

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
OPERATOR = "operator"


class Brought(BaseModel):
    """What every body may have: who saw it, in words, and a key under which a repeat adds nothing."""

    model_config = ConfigDict(extra="forbid")

    source: Name = OPERATOR
    summary: Text = ""
    key: Annotated[str, Field(max_length=200)] = ""


class Opening(Brought):
    """The body of `POST /api/tasks`. `owner` is the session key that is asked when something is unclear."""

    id: str
    goal: Annotated[str, Field(min_length=1, max_length=10_000)]
    steps: Annotated[list[Name], Field(max_length=200)] = []
    owner: Annotated[str, Field(max_length=200)] | None = None
    limits: Limits = Limits()


class Seen(Brought):
    """The body of `POST /api/tasks/{id}/observations`; `data` by kind, see Observation."""

    kind: Kind
    step: Name | None = None
    data: dict[str, Any] = {}


class Replied(Brought):
    """The body of `POST /api/tasks/{id}/reply`."""

    branch: Branch
    step: Name | None = None
    data: dict[str, Any] = {}


def tasks_router(harness: Harness) -> APIRouter:
    router = APIRouter(prefix="/api/tasks")

    @router.get("")
    async def list_tasks(limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        return {"tasks": await harness.db.read(overview.listed, limit, harness.clock.now())}

    @router.post("")
    async def start_task(opening: Opening) -> dict[str, Any]:
        return await harness.db.write(_start, harness, opening)

    @router.get("/monitor")
    async def preview() -> dict[str, Any]:
        return {"decided": await harness.db.read(overview.decisions, harness.clock.now())}

    @router.post("/monitor")
    async def monitor_now(task_id: Annotated[str, Query(max_length=200)] = "") -> dict[str, Any]:
        return {"decided": (await run_monitor(harness, everything=True, task_id=task_id))["decided"]}

    @router.get("/{task_id}")
    async def show_task(task_id: str) -> dict[str, Any]:
        return await harness.db.read(overview.page, task_id, harness.clock.now())

    @router.post("/{task_id}/observations")
    async def observe(task_id: str, seen: Seen) -> dict[str, Any]:
        page, events = await harness.db.write(_observe, harness, task_id, seen)
        if events:
            await announce(harness, events)
        return page

    @router.post("/{task_id}/reply")
    async def reply(task_id: str, replied: Replied) -> dict[str, Any]:
        page, events = await harness.db.write(_reply, harness, task_id, replied)
        if events:
            await announce(harness, events)
        return page

    return router


def _start(tx: Tx, harness: Harness, opening: Opening) -> dict[str, Any]:
    tracking.checked_id(opening.id)
    data = {"goal": opening.goal, "steps": opening.steps}
    data |= {"owner": opening.owner} if opening.owner else {}
    one = _observation(harness, opening.id, Kind.STARTED, opening, None, data)
    tracking.start(tx, one, limits=opening.limits)
    return overview.page(tx, opening.id, harness.clock.now())


def _observe(tx: Tx, harness: Harness, task_id: str, seen: Seen) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    events = observed(tx, harness, _observation(harness, task_id, seen.kind, seen, seen.step, seen.data))
    return overview.page(tx, task_id, harness.clock.now()), events


def _reply(tx: Tx, harness: Harness, task_id: str, replied: Replied) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    data = replied.data | {"branch": replied.branch}
    seen = _observation(harness, task_id, Kind.OWNER_REPLY_RECORDED, replied, replied.step, data)
    _, events = answer(tx, harness, seen)
    return overview.page(tx, task_id, harness.clock.now()), events


def _observation(
    harness: Harness, task_id: str, kind: Kind, brought: Brought, step: str | None, data: dict[str, Any]
) -> Observation:
    return Observation(
        task_id=task_id,
        kind=kind,
        key=brought.key or new_id(harness.clock),
        at=harness.clock.now(),
        source=brought.source,
        step=step,
        summary=brought.summary,
        data=data,
    )
