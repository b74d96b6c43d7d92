"""Tools by which the agent asks to be woken later: schedule_wake, list_wakes, cancel_wake."""

from typing import Annotated

from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, ToolContext, ToolResult, WakeWish, tool
from app.errors import BadInput

NONE = "There are no open wakes."
NOWHERE = ToolResult("There is no conversation here that could be woken.", ok=False)


@tool(Effect.IDEMPOTENT)
async def schedule_wake(
    context: ToolContext,
    reason: Annotated[
        str, Field(min_length=1, max_length=2000, description="What to do then, in full: you are told only this")
    ],
    at: Annotated[str | None, Field(description="A local time such as 2026-12-24T18:00")] = None,
    after: Annotated[str | None, Field(description="From now: 90m, 2h, 3d")] = None,
    cron: Annotated[
        str | None, Field(description="A schedule: minute hour day month weekday, such as 0 9 * * 1-5 (0 is Sunday)")
    ] = None,
    zone: Annotated[str | None, Field(description="Time zone such as Europe/Paris; leave out for the user's")] = None,
    once: Annotated[bool, Field(description="With cron: only at its next time; without, it repeats")] = False,
    rings: Annotated[
        bool, Field(description="Tell the user also at night; only where the user asked for it at that hour")
    ] = False,
) -> ToolResult:
    """Be woken in this conversation later: once (at, after) or again and again (cron).

    Use it for reminders, and to look at something again. Give exactly one of at, after and cron.
    """
    if context.wakes is None:
        return NOWHERE
    text = clean(reason).strip()
    if not text:
        raise BadInput("reason is empty; accepted: a sentence that says what to do then")
    wish = WakeWish(text, at=at, after=after, cron=cron, zone=zone, repeats=bool(cron) and not once, rings=rings)
    return ToolResult(await context.wakes.schedule(context.step_key, wish))


@tool(Effect.READ)
async def list_wakes(context: ToolContext) -> str:
    """List the open wakes of this conversation with their ids, times and reasons."""
    lines = await context.wakes.listed() if context.wakes is not None else []
    return "\n".join(lines) or NONE


@tool(Effect.IDEMPOTENT)
async def cancel_wake(
    context: ToolContext, wake_id: Annotated[str, Field(min_length=1, description="Its id, as list_wakes shows it")]
) -> ToolResult:
    """Cancel an open wake of this conversation: it does not come, nor come again."""
    if context.wakes is None:
        return NOWHERE
    await context.wakes.cancel(wake_id)
    return ToolResult(f"Cancelled {wake_id}.")
