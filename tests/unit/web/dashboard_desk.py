"""The dashboard over the test house, with an engine that is a list: for what needs no runs of its own."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from app.errors import BadInput, NotFound
from app.web.dashboard import add_dashboard
from tests.unit.house import House

HERE = "http://127.0.0.1:8787"
AT = "2026-01-05T11:59:00+00:00"


def run_row(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A run as the desk tells it."""
    row = {
        "id": f"01RUN{number:021d}", "function": "moab-handle-message", "status": "Completed", "createdAt": AT,
        "startedAt": AT, "endedAt": "2026-01-05T11:59:02+00:00", "event": "agent.message.received", "eventId": "E1",
        "sessionKey": "test:chat", "parentRun": None, "replayOf": None, "reason": None, "output": {"kind": "answered"},
    }  # fmt: skip
    return row | changes


def step_row(name: str = "think", **changes: Any) -> dict[str, Any]:
    """A step as the desk tells it."""
    row = {
        "id": f"hash-{name}", "name": name, "op": "StepRun", "status": "Completed", "attempts": 1, "target": None,
        "createdAt": AT, "startedAt": AT, "endedAt": "2026-01-05T11:59:01+00:00", "dueAt": None, "input": None,
        "output": {"kind": "say"}, "error": None, "failures": [],
    }  # fmt: skip
    return row | changes


@dataclass
class FakeDesk:
    """Implements `Desk` and notes what it is told to do."""

    rows: list[dict[str, Any]] = field(default_factory=lambda: [run_row()])
    steps: list[dict[str, Any]] = field(default_factory=lambda: [step_row()])
    done: list[tuple[str, ...]] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    changed: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)

    async def runs(
        self, limit: int, status: str | None, function: str | None, session: str | None = None,
        before: str | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        self.asked.append((limit, status, function, session, before))
        return self.rows[:limit]

    async def run(self, run_id: str) -> dict[str, Any]:
        for row in self.rows:
            if row["id"] == run_id:
                event = {"name": row["event"], "data": {"message": "hello"}}
                return {"run": row | {"event": event}, "steps": self.steps, "failures": []}
        raise NotFound(f"There is no run {run_id!r}.")

    async def events(self, limit: int, name: str | None, before: str | None) -> list[dict[str, Any]]:
        return []

    async def event(self, event_id: str) -> dict[str, Any]:
        raise NotFound(f"There is no event {event_id!r}.")

    async def functions(self) -> list[dict[str, Any]]:
        row = {"id": "moab-heartbeat", "name": "heartbeat", "app": "moab", "config": {"attempts": 9}, "paused": False}
        return [row | {"triggers": [{"cron": "TZ=UTC */30 * * * *"}, {"event": "a", "expression": "b < c"}]}]

    async def send(self, name: str, data: dict[str, Any]) -> str:
        if name.startswith("inngest/"):
            raise BadInput("Names that begin with inngest/ are the engine's own.")
        self.done.append(("send", name, str(data)))
        return "E2"

    async def replay(self, run_id: str, from_step: str | None = None) -> str:
        self.done.append(("replay", run_id, from_step or ""))
        return "01RUN2"

    async def cancel(self, run_id: str) -> None:
        self.done.append(("cancel", run_id))

    async def pause(self, function: str) -> None:
        self.done.append(("pause", function))

    async def resume(self, function: str) -> None:
        self.done.append(("resume", function))

    async def changes(self) -> AsyncGenerator[str, None]:
        while True:
            yield await self.changed.get()


@asynccontextmanager
async def browser(
    house: House, desk: FakeDesk | None, *, loopback: bool = True, elsewhere: str = "", url: str = HERE
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the dashboard that keeps cookies and follows nothing by itself."""
    app = FastAPI(openapi_url=None)
    add_dashboard(app, house.harness, desk, elsewhere=elsewhere, loopback=loopback)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=url) as http:
        yield http


def form_token(page: str) -> str:
    """What the forms of a page carry."""
    return page.partition('name="form_token" value="')[2].partition('"')[0]
