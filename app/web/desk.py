"""What the dashboard asks of the engine at hand, as JSON-like values; who implements it may know the engine."""

from collections.abc import AsyncGenerator
from typing import Any, Protocol


class Desk(Protocol):
    """The engine as people look at it and steer it.

    Every method raises NotFound for what is not there, BadInput for what is not accepted and ServiceUnavailable when
    the engine does not run.
    """

    async def runs(
        self,
        limit: int,
        status: str | None,
        function: str | None,
        session: str | None = None,
        before: str | None = None,
    ) -> list[dict[str, Any]]:
        """Newest first; `session` is a session key, `before` a run id to page from.

        Without any of the filters, runs that a schedule started and that went well are left out.
        """
        ...

    async def run(self, run_id: str) -> dict[str, Any]:
        """`{"run": …, "steps": […], "failures": […]}`."""
        ...

    async def events(self, limit: int, name: str | None, before: str | None) -> list[dict[str, Any]]:
        """Newest first, the engine's own among them; `before` is an event's id to page from."""
        ...

    async def event(self, event_id: str) -> dict[str, Any]:
        """`{"event": …, "runs": […]}`: the event and the runs that it started."""
        ...

    async def functions(self) -> list[dict[str, Any]]:
        """By id: id, name, app, triggers, config, paused."""
        ...

    async def send(self, name: str, data: dict[str, Any]) -> str:
        """Accept one event; its id once it is on disk."""
        ...

    async def replay(self, run_id: str, from_step: str | None = None) -> str:
        """Run again, keeping what was done before `from_step` (a step's id); the new run's id."""
        ...

    async def cancel(self, run_id: str) -> None:
        """Cancel an open run; an ended one stays as it is."""
        ...

    async def pause(self, function: str) -> None:
        """Start nothing of a function until `resume`."""
        ...

    async def resume(self, function: str) -> None: ...

    def changes(self) -> AsyncGenerator[str, None]:
        """Ids of runs that change from now on, until the engine stops."""
        ...
