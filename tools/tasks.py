"""Tools for tasks that were delegated and not waited for: list_tasks, cancel_task."""

from typing import Annotated

from pydantic import Field

from app.agent.tool import Effect, ToolContext, ToolResult, tool

NONE = "There are no open tasks."


@tool(Effect.READ)
async def list_tasks(context: ToolContext) -> str:
    """List the open tasks of this conversation: what runs in the background and what is set for a time."""
    lines = await context.tasks.listed() if context.tasks is not None else []
    return "\n".join(lines) or NONE


@tool(Effect.IDEMPOTENT)
async def cancel_task(
    context: ToolContext,
    task_id: Annotated[str, Field(min_length=1, description="Id of the task, as list_tasks shows it")],
) -> ToolResult:
    """Cancel an open task: it ends, or never begins, and reports nothing to anybody."""
    if context.tasks is None:
        return ToolResult(NONE, ok=False)
    await context.tasks.cancel(task_id)
    return ToolResult(f"Cancelled {task_id}.")
