"""The dashboard: runs, events, sessions and functions as pages, and the buttons on them."""

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from app.agent.harness import APP_ID, Harness
from app.errors import NotFound
from app.web import conversations, records
from app.web.access import OTHER_ORIGIN, Access
from app.web.actions import Actions, events_page
from app.web.approval_pages import ApprovalPages
from app.web.desk import Desk
from app.web.door import Login, guarded_route, leave, missing_page
from app.web.live import Live
from app.web.pages import Pages
from app.web.run_view import run_view

ROWS = 50
STATUSES = ("Scheduled", "Running", "Completed", "Failed", "Cancelled")


def add_dashboard(app: FastAPI, harness: Harness, desk: Desk | None, *, elsewhere: str, loopback: bool) -> None:
    """All routes of the dashboard, and what the service answers where nothing is.

    Without a `desk` the runs are kept `elsewhere` (an address or a name).
    """
    settings, clock = harness.settings, harness.clock
    access = Access(settings.api_token.get_secret_value() if settings.api_token else None, loopback)
    pages = Pages(access, clock, zone=settings.timezone, name=settings.agent_name, secrets=settings.secrets())
    login, shows = Login(access, pages, clock), Shows(harness, desk, pages, elsewhere)
    live = Live(desk, harness.notifier)

    async def changes(request: Request) -> Response:
        if access.is_elsewhere(request.headers):
            return Response(OTHER_ORIGIN, 403, media_type="text/plain")
        return live.answer(request.query_params.get("session"))

    async def static(request: Request) -> Response:
        return pages.static(request, request.path_params["file"])

    router = APIRouter()
    router.add_api_route("/static/{file}", static, methods=["GET"], response_model=None)
    router.add_api_route("/login", login.show, methods=["GET"], response_model=None)
    router.add_api_route("/login", login.enter, methods=["POST"], response_model=None)
    inside = APIRouter(route_class=guarded_route(access, pages, clock))
    inside.add_api_route("/live", changes, methods=["GET"], response_model=None)
    inside.add_api_route("/logout", leave, methods=["POST"], response_model=None)
    for path, show in shows.routes():
        inside.add_api_route(path, show, methods=["GET"], response_model=None)
    requests = ApprovalPages(harness, pages, linked=desk is not None)
    inside.add_api_route("/approvals", requests.show, methods=["GET"], response_model=None)
    inside.add_api_route("/approvals/{number}", requests.decide, methods=["POST"], response_model=None)
    for path, act in Actions(harness, desk, pages).routes():
        inside.add_api_route(path, act, methods=["POST"], response_model=None)
    router.include_router(inside)
    app.include_router(router)
    app.add_exception_handler(404, missing_page(access, pages, clock))


class Shows:
    """The pages that only show."""

    def __init__(self, harness: Harness, desk: Desk | None, pages: Pages, elsewhere: str) -> None:
        self._harness, self._desk, self._pages, self._elsewhere = harness, desk, pages, elsewhere

    def routes(self) -> list[tuple[str, Any]]:
        """Path and handler; the more general path last."""
        return [
            ("/", self.runs),
            ("/runs", self.runs_by_name),
            ("/runs/{run_id}", self.run),
            ("/runs/{run_id}/steps/{step_id}", self.step),
            ("/events", self.events),
            ("/events/{event_id}", self.event),
            ("/sessions", self.sessions),
            ("/sessions/{key:path}", self.session),
            ("/functions", self.functions),
        ]

    async def runs_by_name(self, _request: Request) -> Response:
        return RedirectResponse("/", 303)

    async def runs(self, request: Request) -> Response:
        if self._desk is None:
            return self._look_elsewhere(request)
        query = {name: request.query_params.get(name, "").strip() for name in ("status", "function", "session")}
        before = request.query_params.get("before") or None
        found = await self._desk.runs(
            ROWS + 1, query["status"] or None, query["function"] or None, query["session"] or None, before
        )
        rows = found[:ROWS]
        spent = await self._harness.db.read(records.spent_by_run, [run["id"] for run in rows])
        return self._pages.answer(
            request, "runs", runs=rows, spent=spent, more=len(found) > ROWS, query=query, before=before,
            statuses=STATUSES, functions=await self._desk.functions(), app=APP_ID,
            keys=await self._harness.db.read(conversations.known_keys),
        )  # fmt: skip

    async def run(self, request: Request, run_id: str) -> Response:
        if self._desk is None:
            return self._look_elsewhere(request)
        return self._pages.answer(request, "run", **await run_view(self._harness, self._desk, run_id))

    async def step(self, request: Request, run_id: str, step_id: str) -> Response:
        if self._desk is None:
            return self._look_elsewhere(request)
        view = await run_view(self._harness, self._desk, run_id)
        item = next((item for item in view["items"] if item.step["id"] == step_id), None)
        if item is None:
            raise NotFound("The run has no such step.")
        return self._pages.answer(request, "step", run=view["run"], item=item)

    async def events(self, request: Request) -> Response:
        if self._desk is None:
            return self._look_elsewhere(request)
        return await events_page(request, self._desk, self._pages)

    async def event(self, request: Request, event_id: str) -> Response:
        if self._desk is None:
            return self._look_elsewhere(request)
        found = await self._desk.event(event_id)
        spent = await self._harness.db.read(records.spent_by_run, [run["id"] for run in found["runs"]])
        return self._pages.answer(request, "event", event=found["event"], runs=found["runs"], spent=spent, app=APP_ID)

    async def sessions(self, request: Request) -> Response:
        key = request.query_params.get("key", "").strip()
        before = request.query_params.get("before", "")
        page_from = _row(before)
        found = await self._harness.db.read(conversations.listed, ROWS + 1, key or None, page_from)
        rows = found[:ROWS]
        return self._pages.answer(request, "sessions", sessions=rows, more=len(found) > ROWS, key=key, before=page_from)

    async def session(self, request: Request, key: str) -> Response:
        before = request.query_params.get("before", "")
        found = await self._harness.db.read(
            conversations.conversation, key, request.query_params.get("id"), _row(before)
        )
        return self._pages.answer(request, "session", talk=found, before=before, linked=self._desk is not None)

    async def functions(self, request: Request) -> Response:
        if self._desk is None:
            return self._look_elsewhere(request)
        return self._pages.answer(request, "functions", functions=await self._desk.functions(), app=APP_ID)

    def _look_elsewhere(self, request: Request) -> Response:
        return self._pages.answer(request, "elsewhere", elsewhere=self._elsewhere)


def _row(text: str) -> int | None:
    """The id of a row to page from; what is none is left aside."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
