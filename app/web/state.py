"""The whole state as one JSON document, for `moab state`: docs/state.schema.json says its form."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

from fastapi import APIRouter
from sqlalchemy import select

from app.agent.announce import announce
from app.agent.goals.orders import list_goals
from app.agent.goals.watched import watching_of
from app.agent.harness import Harness
from app.agent.heartbeat import checklist
from app.agent.heartbeat.night import is_night
from app.agent.outside import open_calls
from app.db import Tx, moment
from app.errors import ServiceUnavailable
from app.events import WakeDue
from app.ids import new_id
from app.sessions.tasks import OPEN
from app.tables import sessions, tasks
from app.web.approvals import open_approvals
from app.work import ledger, rounds, supervision, wakes
from app.work.supervision import Executor, Supervision
from app.work.wakes import Wake
from app.work.watching import Watch, Watching

TEXT_CHARS = 500
GOALS = 100
"""How many goals are told, the newest first."""


def state_router(harness: Harness) -> APIRouter:
    """`GET /api/state`, `POST /api/heartbeat`."""
    router = APIRouter()

    @router.get("/api/state")
    async def show_state() -> dict[str, Any]:
        watching = await asyncio.to_thread(_watching, harness)
        return await harness.db.read(state, harness, watching)

    @router.post("/api/heartbeat")
    async def beat() -> dict[str, Any]:
        return await beat_now(harness)

    return router


def _watching(harness: Harness) -> Watching:
    """The watched folders; beside their faults those of pipelines."""
    shelf = harness.library.look()
    watching = watching_of(harness, shelf)
    return replace(watching, faults=(*watching.faults, *shelf.faults.values()))


def state(tx: Tx, harness: Harness, watching: Watching) -> dict[str, Any]:
    """What is going on: goals, tasks, wakes, requests that wait for a person, watched folders, and the beats."""
    now = harness.clock.now()
    return {
        "at": now.isoformat(),
        "agent": harness.settings.agent_name,
        "version": harness.code_version,
        "beat": _beat(tx, harness, now),
        "goals": list_goals(tx, GOALS),
        "tasks": [_tracked(tx, watch) for watch in supervision.everything(tx, Executor.OWNER, Executor.COMMAND)]
        + _delegated(tx),
        "wakes": [_wake(wake) for wake in wakes.all_open(tx)],
        "approvals": open_approvals(tx),
        "calls": open_calls(tx),
        "watch": [_watch(watch, watching.settle_s) for watch in watching.folders],
        "faults": list(watching.faults),
    }


async def beat_now(harness: Harness) -> dict[str, Any]:
    """Let the heart beat at once and look at its checklist, if it is day; when it has beaten last before.

    Raises ServiceUnavailable if the engine does not take the wish.
    """

    def prepare(tx: Tx) -> str | None:
        checklist.look_now(tx, harness.clock.now())
        last = rounds.find(tx, "beat")
        return last.last_at.isoformat() if last is not None else None

    last = await harness.db.write(prepare)
    if not await announce(harness, [WakeDue().to_wire(f"beat:{new_id(harness.clock)}")]):
        raise ServiceUnavailable("The engine does not take events right now; try again.")
    return {"last": last}


def _beat(tx: Tx, harness: Harness, now: datetime) -> dict[str, Any]:
    settings = harness.settings
    last, looked = rounds.find(tx, "beat"), rounds.find(tx, checklist.ROUND)
    return {
        "cron": settings.beat_cron,
        "zone": settings.timezone,
        "last": _time(last.last_at if last else None),
        "next": _time(wakes.next_instant(settings.beat_cron, settings.timezone, now)),
        "night": is_night(now, harness.daily_log.zone, settings.quiet),
        "checklist": {
            "last": _time(looked.last_at if looked else None),
            "next": _time(looked.next_at if looked else None),
            "failures": looked.failures if looked else 0,
        },
    }


def _watch(watch: Watch, settle_s: int) -> dict[str, Any]:
    return {
        "path": str(watch.path),
        "patterns": list(watch.patterns),
        "pipeline": watch.pipeline,
        "priority": str(watch.priority),
        "settleS": settle_s,
    }


def _wake(wake: Wake) -> dict[str, Any]:
    return {
        "id": wake.id,
        "sessionKey": wake.session_key,
        "reason": wake.reason[:TEXT_CHARS],
        "dueAt": wake.due_at.isoformat(),
        "cron": wake.cron,
        "zone": wake.zone,
        "fired": wake.fired,
    }


def _tracked(tx: Tx, watch: Supervision) -> dict[str, Any]:
    """A task that the monitor watches over, as its observations say."""
    derived = ledger.derived(tx, watch.task_id)
    return {
        "id": watch.task_id,
        "kind": "tracked" if watch.executor == Executor.OWNER else "command",
        "sessionKey": watch.owner_key,
        "state": str(derived.truth_state),
        "step": derived.current_step,
        "about": derived.goal[:TEXT_CHARS],
        "dueAt": None,
        "createdAt": watch.created_at.isoformat(),
    }


def _delegated(tx: Tx) -> list[dict[str, Any]]:
    """Tasks of sub-agents that nobody waits for and that are not over."""
    query = select(tasks, sessions.c.key.label("session_key")).join(sessions, sessions.c.id == tasks.c.session_id)
    rows = tx.execute(query.where(tasks.c.state.in_(OPEN)).order_by(tasks.c.created_at, tasks.c.id)).all()
    return [
        {
            "id": row.id,
            "kind": row.mode,
            "sessionKey": row.session_key,
            "state": row.state,
            "step": None,
            "about": row.task[:TEXT_CHARS],
            "dueAt": _time(moment(row.due_at)),
            "createdAt": _time(moment(row.created_at)),
        }
        for row in rows
    ]


def _time(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None
