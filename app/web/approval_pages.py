"""The dashboard's page of requests that wait for a person, and its buttons."""

from typing import Any

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError

from app.agent.harness import Harness
from app.errors import BadInput
from app.web.approvals import Decided, decide_here, open_approvals
from app.web.pages import Pages


class ApprovalPages:
    """Works also where the runs are kept elsewhere: requests are ours. `linked` is whether runs can be shown here."""

    def __init__(self, harness: Harness, pages: Pages, *, linked: bool) -> None:
        self._harness, self._pages, self._linked = harness, pages, linked

    async def show(self, request: Request) -> Response:
        return await self._page(request)

    async def _page(self, request: Request, fault: str | None = None) -> Response:
        rows = await self._harness.db.read(open_approvals)
        status = 200 if fault is None else 409
        return self._pages.answer(request, "approvals", status, approvals=rows, fault=fault, linked=self._linked)

    async def decide(self, request: Request, number: str) -> Response:
        """One that was decided by somebody else, or an answer that is no choice, is said above what is still open."""
        outcome = await decide_here(self._harness, number, decided(request.state.form))
        if not outcome["done"]:
            return await self._page(request, str(outcome["text"]))
        return RedirectResponse("/approvals", 303)


def decided(form: dict[str, Any]) -> Decided:
    """The decision of a posted form. Raises BadInput."""
    try:
        return Decided(decision=form.get("decision", ""), words=form.get("words", "").strip())
    except ValidationError as error:
        raise BadInput("A decision is approve, deny or answer, with at most 10,000 characters of words.") from error
