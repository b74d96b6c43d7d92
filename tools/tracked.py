"""Tools for tasks that are tracked in the ledger: task_start, task_progress, task_complete, task_block, external_job,
task_reply."""

from typing import Annotated, Any, Literal

from pydantic import Field

from app.agent.tool import Effect, Ledger, Sighting, ToolContext, tool
from app.errors import BadInput

Name = Annotated[str, Field(min_length=1, max_length=200)]
TaskId = Annotated[str, Field(description="Its id, as task_start gave it")]
Step = Annotated[str, Field(min_length=1, description="Name of the step")]
StepName = Annotated[str | None, Field(description="Name of the step, if it has steps")]
Summary = Annotated[str, Field(max_length=4000, description="What was seen, in a sentence")]
Reason = Annotated[
    str,
    Field(
        min_length=1,
        max_length=200,
        description="Tried again: DOWNLOAD_TIMEOUT, DOWNLOAD_INCOMPLETE, TRANSIENT_NETWORK, EXECUTION_ERROR, "
        "EXTERNAL_WAIT; told the user: any other, such as NEEDS_A_PERSON",
    ),
]
Evidence = Annotated[
    dict[str, str] | None,
    Field(
        description="What the provider gave as proof: job_id, receipt, status_url, poll_token, artifact, response_ref"
    ),
]


def _ledger(context: ToolContext) -> Ledger:
    if context.ledger is None:
        raise BadInput("There is no ledger here: tasks are tracked in a conversation.")
    return context.ledger


@tool(Effect.IDEMPOTENT)
async def task_start(
    context: ToolContext,
    goal: Annotated[str, Field(min_length=1, max_length=2000, description="What is to be reached, in full")],
    steps: Annotated[
        list[Name] | None,
        Field(max_length=50, description="Short names of the steps, in order; leave out if it has none"),
    ] = None,
) -> str:
    """Track a task that takes many turns or waits for something outside, so that it is never forgotten.

    Report what you see of it with the other task tools; when nothing is seen for long, you are asked.
    """
    return await _ledger(context).start(context.step_key, goal, steps or [])


@tool(Effect.IDEMPOTENT)
async def task_progress(
    context: ToolContext,
    task_id: TaskId,
    step: Step,
    summary: Summary,
    completed: Annotated[bool, Field(description="The step is done; progress alone never completes it")] = False,
) -> str:
    """Note what you observed of a step of a tracked task: that it gets on, or that it is completed."""
    kind = "STEP_COMPLETED" if completed else "STEP_PROGRESS"
    return await _ledger(context).observe(context.step_key, Sighting(task_id, kind, step, summary))


@tool(Effect.IDEMPOTENT)
async def task_complete(context: ToolContext, task_id: TaskId, summary: Summary) -> str:
    """Note that a tracked task is done as a whole. All of its steps must be completed before."""
    return await _ledger(context).observe(context.step_key, Sighting(task_id, "TASK_COMPLETED", None, summary))


@tool(Effect.IDEMPOTENT)
async def task_block(
    context: ToolContext,
    task_id: TaskId,
    reason: Reason,
    summary: Summary,
    step: StepName = None,
    final: Annotated[bool, Field(description="It failed for good: nobody is to try again")] = False,
) -> str:
    """Note that you have confirmed that a tracked task cannot go on."""
    data = {"reason": reason, "final": final}
    return await _ledger(context).observe(
        context.step_key, Sighting(task_id, "BLOCKED_CONFIRMED", step, summary, data=data)
    )


@tool(Effect.IDEMPOTENT)
async def external_job(
    context: ToolContext,
    task_id: TaskId,
    job: Annotated[str, Field(min_length=1, max_length=200, description="A name for the job; the same on every look")],
    source: Annotated[str, Field(min_length=1, max_length=200, description="Who said so: the provider, the tool used")],
    status: Annotated[Literal["pending", "completed", "failed"], Field(description="How it stands now")],
    evidence: Evidence = None,
    step: StepName = None,
    summary: Summary = "",
) -> str:
    """Note how work outside stands that a tracked task waits for, when you hand it over and each time you look.

    A job that is pending needs evidence.
    """
    data: dict[str, Any] = {"job": job, "status": status, "evidence": evidence or {}}
    seen = Sighting(task_id, "EXTERNAL_OBSERVED", step, summary, source=source, data=data)
    return await _ledger(context).observe(context.step_key, seen)


@tool(Effect.IDEMPOTENT)
async def task_reply(
    context: ToolContext,
    task_id: TaskId,
    branch: Annotated[
        Literal["A", "B", "C", "D", "E"],
        Field(description="A still working, B done, C blocked, D waiting outside, E give up"),
    ],
    summary: Summary,
    step: StepName = None,
    reason: Annotated[str | None, Field(description="With C: as for task_block")] = None,
    job: Annotated[str | None, Field(description="With D: the job's name")] = None,
    evidence: Annotated[dict[str, str] | None, Field(description="With D: as for external_job")] = None,
) -> str:
    """Answer the question how a tracked task stands, after you have looked."""
    data: dict[str, Any] = {"branch": branch}
    data |= {name: value for name, value in (("reason", reason), ("job", job), ("evidence", evidence)) if value}
    seen = Sighting(task_id, "OWNER_REPLY_RECORDED", step, summary, data=data)
    return await _ledger(context).reply(context.step_key, seen)
