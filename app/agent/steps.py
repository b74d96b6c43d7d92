"""The SDK's steps as the loop knows them, with faults of our own code turned into values on the third attempt."""

import functools
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import inngest
from sqlalchemy.exc import DBAPIError

from app.agent.flow import Ask
from app.agent.harness import APP_ID
from app.agent.loop import Body
from app.errors import BadInput
from app.events import ApprovalDecided, Event, Routed, wire_safe

E = TypeVar("E", bound=Event)

log = logging.getLogger("moab.agent")

CODE_ATTEMPTS = 3


def parse(event: type[E], ctx: inngest.Context) -> E:
    """The run's input from its data. What does not fit will never fit: the run fails at once, with the reason."""
    try:
        return event.from_data(ctx.event.data)
    except BadInput as error:
        raise inngest.NonRetriableError(str(error)) from error


def unless_crashed(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """`answer`, or the end of the run if the step's code failed for good."""
    if answer.get("kind") == "crashed":
        raise inngest.NonRetriableError(str(answer.get("message")))
    return answer


def key_of(event: Routed, ctx: inngest.Context) -> str:
    """The identity of a message: its key, or for senders that know none the id of its event."""
    return event.message_key or f"event:{ctx.event.id}"


class DurableSteps:
    """Implements `Steps` on a run's context. Pure outside of the bodies it hands to the engine.

    With `again` its steps are others than those without: their bodies find their records and give them once more.
    """

    def __init__(self, ctx: inngest.Context, *, again: bool = False) -> None:
        self._ctx = ctx
        self._suffix = "-again" if again else ""

    async def run(self, step_id: str, body: Body, *args: Any) -> Mapping[str, Any]:
        answer: Any = await self._ctx.step.run(step_id + self._suffix, functools.partial(self._guarded, body, *args))
        return dict(answer)

    async def parallel(self, wanted: Sequence[tuple[str, Body, Any]]) -> Sequence[Mapping[str, Any]]:
        planned = tuple(functools.partial(self.run, step_id, body, argument) for step_id, body, argument in wanted)
        return await self._ctx.group.parallel(planned)

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        await self._ctx.step.sleep_until(step_id + self._suffix, until)

    async def wait_for_decision(self, step_id: str, ask: Ask, beside: tuple[str, Body, Any] | None) -> None:
        wait = functools.partial(
            self._ctx.step.wait_for_event,
            step_id + self._suffix,
            event=ApprovalDecided.name,
            if_exp=f"async.data.approvalId == '{ask.id}'",
            timeout=timedelta(seconds=ask.wait_s),
        )
        if beside is None:
            await wait()
        else:
            await self._ctx.group.parallel((functools.partial(self.run, *beside), wait))

    async def invoke(self, step_id: str, function_id: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            value = await self._ctx.step.invoke_by_id(
                step_id + self._suffix, app_id=APP_ID, function_id=function_id, data=data
            )
        except inngest.StepError as error:
            return {"ok": False, "error": error.message}
        return {"ok": True, "value": value}

    async def _guarded(self, body: Body, *args: Any) -> Any:
        """A dead database or disk is the engine's to retry; a fault of our code is retried twice, then a value."""
        try:
            return wire_safe(await body(*args))
        except (DBAPIError, OSError):
            raise
        except Exception as error:
            if self._ctx.attempt + 1 < CODE_ATTEMPTS:
                raise
            log.exception("A step of run %s failed three times; the turn ends with a plain sentence.", self._ctx.run_id)
            return {"kind": "crashed", "message": f"{type(error).__name__}: {error}"[:300]}
