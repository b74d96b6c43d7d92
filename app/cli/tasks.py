"""`moab task`: write down what is seen of tracked tasks, and look how they stand."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.service import AsJson, json_text, read_settings, the_service
from app.errors import BadInput

tasks = typer.Typer(help="Write down what is seen of tracked tasks, and look how they stand.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
Step = Annotated[str | None, typer.Option("--step", help="Name of the step.")]
Summary = Annotated[str, typer.Option(help="What was seen, in a sentence.")]
Source = Annotated[str, typer.Option(help="Who saw it.")]
Key = Annotated[str, typer.Option(help="A name for this observation: a repeat under the same name adds nothing.")]
OPERATOR = "operator"

JobId = Annotated[str, typer.Option("--job-id", help="Evidence: the provider's id of the job.")]
Receipt = Annotated[str, typer.Option("--receipt", help="Evidence: a receipt.")]
StatusUrl = Annotated[str, typer.Option("--status-url", help="Evidence: a handle or URL where its status is told.")]
PollToken = Annotated[str, typer.Option("--poll-token", help="Evidence: a token to ask with.")]
Artifact = Annotated[str, typer.Option("--artifact", help="Evidence: path or URL of what it makes.")]
ResponseRef = Annotated[str, typer.Option("--response-ref", help="Evidence: reference of the provider's answer.")]

CHECKPOINTS = ("STEP_PROGRESS", "STEP_COMPLETED", "TASK_COMPLETED", "OWNER_RESUMED", "HEARTBEAT")


@tasks.command()
def init(
    task_id: Id,
    goal: Annotated[str, typer.Option(help="What is to be reached.")],
    step: Annotated[list[str] | None, typer.Option("--step", help="A step; give it again for the next.")] = None,
    session: Annotated[str, typer.Option(help="The conversation that is asked when something is unclear.")] = "",
    nudge_after: Annotated[int, typer.Option(min=3, help="Seconds without progress before its owner is asked.")] = 1800,
    source: Source = OPERATOR,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Begin to track a task."""
    from app.cli.chat import session_key

    limits = {"heartbeat_s": nudge_after // 3, "stale_s": nudge_after * 2 // 3, "nudge_s": nudge_after}
    owner = {"owner": session_key(session)} if session else {}
    body = {"id": task_id, "goal": goal, "steps": step or [], "limits": limits} | owner
    _show(_asked("POST", "", body | _brought(source, "", key)), as_json)


@tasks.command()
def checkpoint(
    task_id: Id,
    event_type: Annotated[str, typer.Option(help=f"One of {', '.join(CHECKPOINTS)}.")],
    step: Step = None,
    summary: Summary = "",
    alive: Annotated[bool, typer.Option("--alive", help="With HEARTBEAT: it lives, and got nothing done.")] = False,
    source: Source = OPERATOR,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Note that a task, or a step of it, got on or was completed."""
    kind = event_type.upper()
    if kind not in CHECKPOINTS:
        raise BadInput(f"--event-type {event_type!r} is not accepted: {', '.join(CHECKPOINTS)}.")
    data = {"success": not alive} if kind == "HEARTBEAT" else {}
    _observe(task_id, kind, step, data, _brought(source, summary, key), as_json)


@tasks.command()
def block(
    task_id: Id,
    reason: Annotated[str, typer.Option(help="DOWNLOAD_TIMEOUT, TRANSIENT_NETWORK, NEEDS_A_PERSON, …")],
    step: Step = None,
    summary: Summary = "",
    final: Annotated[bool, typer.Option("--final", help="It failed for good.")] = False,
    source: Source = OPERATOR,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Note that a task cannot go on, and why."""
    data = {"reason": reason, "final": final}
    _observe(task_id, "BLOCKED_CONFIRMED", step, data, _brought(source, summary, key), as_json)


@tasks.command(name="external-job")
def external_job(
    task_id: Id,
    job: Annotated[str, typer.Option(help="A name for the job, the same on every look.")],
    source: Annotated[str, typer.Option(help="Who said so: the provider, the program that asked.")],
    status: Annotated[str, typer.Option(help="pending, completed or failed.")] = "pending",
    job_id: JobId = "",
    receipt: Receipt = "",
    status_url: StatusUrl = "",
    poll_token: PollToken = "",
    artifact: Artifact = "",
    response_ref: ResponseRef = "",
    step: Step = None,
    summary: Summary = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Note how a job outside stands; a pending one needs evidence."""
    evidence = _evidence(job_id, receipt, status_url, poll_token, artifact, response_ref)
    data = {"job": job, "status": status, "evidence": evidence}
    _observe(task_id, "EXTERNAL_OBSERVED", step, data, _brought(source, summary, key), as_json)


@tasks.command(name="download-observed")
def download_observed(
    task_id: Id,
    path: Annotated[str, typer.Option(help="Path or URL of what is downloaded.")],
    source: Annotated[str, typer.Option(help="Who looked.")],
    status: Annotated[str, typer.Option(help="pending, completed, failed, incomplete or timeout.")] = "pending",
    size: Annotated[int | None, typer.Option("--bytes", min=0, help="How many bytes are there.")] = None,
    expected: Annotated[int | None, typer.Option("--expected-bytes", min=0, help="How many there should be.")] = None,
    step: Step = None,
    summary: Summary = "",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Note how a download stands."""
    data: dict[str, Any] = {"path": path, "status": status}
    data |= {name: value for name, value in (("bytes", size), ("expected_bytes", expected)) if value is not None}
    _observe(task_id, "DOWNLOAD_OBSERVED", step, data, _brought(source, summary, key), as_json)


@tasks.command(name="owner-reply")
def owner_reply(
    task_id: Id,
    branch: Annotated[str, typer.Option(help="A working, B done, C blocked, D waiting outside, E given up.")],
    summary: Summary = "",
    step: Step = None,
    reason: Annotated[str, typer.Option(help="With C: why.")] = "",
    job: Annotated[str, typer.Option(help="With D: the job's name.")] = "",
    job_id: JobId = "",
    receipt: Receipt = "",
    status_url: StatusUrl = "",
    poll_token: PollToken = "",
    artifact: Artifact = "",
    response_ref: ResponseRef = "",
    source: Source = "owner",
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Answer the question how a task stands, in its owner's place."""
    evidence = _evidence(job_id, receipt, status_url, poll_token, artifact, response_ref)
    data = _given({"reason": reason, "job": job, "evidence": evidence})
    body = {"branch": branch.upper(), "step": step, "data": data} | _brought(source, summary, key)
    _show(_asked("POST", f"/{_part(task_id)}/reply", body), as_json)


@tasks.command()
def monitor(
    task_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this task.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Do what is decided, now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is to be done about the tasks that are watched over."""
    from app.cli.tasks_text import decisions_page

    only = f"?task_id={_part(task_id)}" if task_id else ""
    found = _asked("POST" if apply else "GET", f"/monitor{only if apply else ''}")["decided"]
    shown = [one for one in found if task_id in (None, one["id"])]
    typer.echo(json_text({"decided": shown}) if as_json else decisions_page(shown, applied=apply))


@tasks.command()
def show(task_id: Id, as_json: AsJson = False) -> None:
    """Show everything that was seen of a task, and what follows from it."""
    _show(_asked("GET", f"/{_part(task_id)}"), as_json)


@tasks.command(name="list")
def list_tasks(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20, as_json: AsJson = False
) -> None:
    """Show the tracked tasks of everybody, ended ones too; /tasks in a chat lists what is open there."""
    from app.cli.tasks_text import list_page

    found = _asked("GET", f"?limit={limit}")
    typer.echo(json_text(found) if as_json else list_page(found["tasks"]))


def _observe(
    task_id: str, kind: str, step: str | None, data: Mapping[str, Any], brought: Mapping[str, Any], as_json: bool
) -> None:
    body = {"kind": kind, "step": step, "data": dict(data)} | dict(brought)
    _show(_asked("POST", f"/{_part(task_id)}/observations", body), as_json)


def _asked(method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with the_service(read_settings()) as (client, _):
            return await client.tracked(method, path, body)

    return asyncio.run(ask())


def _show(page: Mapping[str, Any], as_json: bool) -> None:
    from app.cli.tasks_text import task_page

    typer.echo(json_text(page) if as_json else task_page(page))


def _brought(source: str, summary: str, key: str) -> dict[str, str]:
    return {"source": source, "summary": summary, "key": key}


def _evidence(
    job_id: str, receipt: str, status_url: str, poll_token: str, artifact: str, response_ref: str
) -> dict[str, str]:
    given = {"job_id": job_id, "receipt": receipt, "status_url": status_url}
    return _given(given | {"poll_token": poll_token, "artifact": artifact, "response_ref": response_ref})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _part(task_id: str) -> str:
    return quote(task_id, safe="")
