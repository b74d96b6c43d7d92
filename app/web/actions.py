"""What the dashboard's buttons do. Each is a posted form that the door has checked, and ends in a page to look at."""

import json
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from app.agent.harness import Harness
from app.errors import BadInput, ServiceUnavailable
from app.sessions import session
from app.web.desk import Desk
from app.web.pages import Pages
from app.web.run_view import run_view
from app.web.timeline import unsafe_calls

EVENTS_SHOWN = 50
EMPTY = {"name": "", "data": "{}"}


class Actions:
    """The buttons. Without a desk none of them does anything."""

    def __init__(self, harness: Harness, desk: Desk | None, pages: Pages) -> None:
        self._harness, self._own_desk, self._pages = harness, desk, pages

    def routes(self) -> list[tuple[str, Any]]:
        return [
            ("/runs/{run_id}/replay", self.replay),
            ("/runs/{run_id}/cancel", self.cancel),
            ("/events", self.send),
            ("/functions/{function}/pause", self.pause),
            ("/functions/{function}/resume", self.resume),
        ]

    @property
    def _desk(self) -> Desk:
        if self._own_desk is None:
            raise ServiceUnavailable("The runs are kept by Inngest: do this there.")
        return self._own_desk

    async def replay(self, request: Request, run_id: str) -> Response:
        """Asks first when calls would be done again that may do harm."""
        form = request.state.form
        from_step = form.get("from") or None
        if "anyway" not in form:
            view = await run_view(self._harness, self._desk, run_id)
            risky = unsafe_calls(view["items"], from_step)
            if risky:
                return self._pages.answer(request, "replay", run=view["run"], from_step=from_step, calls=risky)
        return RedirectResponse(f"/runs/{await self._desk.replay(run_id, from_step)}", 303)

    async def cancel(self, _request: Request, run_id: str) -> Response:
        """The run, and with it its turn: an operator's cancel is a stop, not a turn that waits to be taken up again."""
        await self._desk.cancel(run_id)
        await self._harness.db.write(session.stop_turn, run_id, self._harness.clock.now())
        return RedirectResponse(f"/runs/{run_id}", 303)

    async def send(self, request: Request) -> Response:
        """What does not fit is said on the same page, with the form as it was."""
        form = request.state.form
        try:
            name, data = parse_event(form)
            event_id = await self._desk.send(name, data)
        except BadInput as error:
            return await events_page(request, self._desk, self._pages, form=EMPTY | form, fault=str(error))
        return RedirectResponse(f"/events/{event_id}", 303)

    async def pause(self, _request: Request, function: str) -> Response:
        await self._desk.pause(function)
        return RedirectResponse("/functions", 303)

    async def resume(self, _request: Request, function: str) -> Response:
        await self._desk.resume(function)
        return RedirectResponse("/functions", 303)


def parse_event(form: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Name and data of an event as typed into the form. Raises BadInput."""
    name = form.get("name", "").strip()
    if not name:
        raise BadInput("The event needs a name, such as agent.message.received.")
    try:
        data = json.loads(form.get("data", "").strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise BadInput(f"The data is not JSON: {error}.") from error
    if not isinstance(data, dict):
        raise BadInput('The data must be a JSON object, such as {"message": "hello"}.')
    return name, data


async def events_page(
    request: Request, desk: Desk, pages: Pages, *, form: Mapping[str, str] = EMPTY, fault: str | None = None
) -> Response:
    """The list of events and the form to send one."""
    name, before = request.query_params.get("name", "").strip(), request.query_params.get("before") or None
    found = await desk.events(EVENTS_SHOWN + 1, name or None, before)
    return pages.answer(
        request, "events", 200 if fault is None else 400,
        events=found[:EVENTS_SHOWN], more=len(found) > EVENTS_SHOWN, name=name, before=before, form=form, fault=fault,
    )  # fmt: skip
