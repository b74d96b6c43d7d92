"""`moab goals` and `moab pipeline`: work that goes on by itself, seen, begun, ended and tried again."""

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.service import AsJson, json_text, read_settings, the_service
from app.errors import NotFound

goals = typer.Typer(help="See what goes on by itself, end it, try it again.", invoke_without_command=True)
pipeline = typer.Typer(help="See the pipelines, and send something through one.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(metavar="ID", help="The goal's id.")]
WAIT_S = 60.0


@goals.callback()
def goals_by_default(context: typer.Context) -> None:
    """See what goes on by itself; without a verb: list it."""
    if context.invoked_subcommand is None:
        list_goals()


@goals.command(name="list")
def list_goals(
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    only_open: Annotated[bool, typer.Option("--open", help="Only those that have not come to their end.")] = False,
) -> None:
    """List the latest goals."""
    from app.cli.goals_text import goals_table

    found = _asked("GET", "/goals", query={"limit": limit, "only_open": only_open})
    typer.echo(json_text(found) if as_json else goals_table(found["goals"]))


@goals.command()
def show(goal_id: Id, as_json: AsJson = False) -> None:
    """Show one goal with its steps and what they made."""
    _show(_asked("GET", _path(goal_id))["goal"], as_json)


@goals.command()
def retry(goal_id: Id) -> None:
    """Try again what failed, at once."""
    typer.echo(_asked("POST", _path(goal_id, "retry"))["text"])


@goals.command()
def cancel(goal_id: Id) -> None:
    """End an open goal for good."""
    typer.echo(_asked("POST", _path(goal_id, "cancel"))["text"])


@pipeline.command(name="list")
def list_pipelines(as_json: AsJson = False) -> None:
    """List the pipelines, and the files that are none, with their faults."""
    from app.cli.goals_text import pipelines_page

    found = _asked("GET", "/pipelines")
    typer.echo(json_text(found) if as_json else pipelines_page(found))


@pipeline.command()
def check(file: Annotated[Path, typer.Argument(help="A pipeline's file.")]) -> None:
    """Say whether a file is a valid pipeline; with exit code 1, what is wrong with it."""
    from app.work.pipeline import parse

    if not file.is_file():
        raise NotFound(f"There is no file {file}.")
    steps = parse(file.stem, file.read_text("utf-8", errors="replace")).steps
    typer.echo(f"It is a valid pipeline: {', '.join(step.id for step in steps)}.")


@pipeline.command()
def run(
    name: Annotated[str, typer.Argument(help="The pipeline's name.")],
    file: Annotated[Path | None, typer.Argument(help="The file that it begins with.")] = None,
    title: Annotated[str, typer.Option(help="What to call it.", show_default="the file's name")] = "",
    session: Annotated[str, typer.Option(help="The conversation that is told.", show_default="the last one")] = "",
    again: Annotated[bool, typer.Option("--again", help="Also if this content went through it before.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end; exit code 1 if it failed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send a file through a pipeline of the running service; it moves only if it lies in a watched folder."""
    from app.cli.chat import session_key

    if file is not None and not file.is_file():
        raise NotFound(f"There is no file {file}.")
    body = {
        "pipeline": name,
        "source": str(file.absolute()) if file is not None else "",
        "title": title,
        "session": session_key(session) if session else None,
        "key": secrets.token_hex(8),
        "again": again,
    }
    begun = _asked("POST", "/goals", body=body)
    if not begun["fresh"]:
        typer.echo(f"This content went through {name} before; --again sends it once more.", err=True)
    goal = _wait(begun["goal"]["id"]) if wait else begun["goal"]
    _show(goal, as_json)
    if wait and goal["life"] != "COMPLETED":
        raise typer.Exit(1)


def _wait(goal_id: str) -> dict[str, Any]:
    """The goal once it has come to its end, however long that takes."""

    async def wait() -> dict[str, Any]:
        async with the_service(read_settings()) as (client, _):
            while True:
                found = await client.ask("GET", f"/api{_path(goal_id)}", wait=WAIT_S)
                if found["goal"]["closedAt"] is not None:
                    return dict(found["goal"])

    return asyncio.run(wait())


def _path(goal_id: str, order: str = "") -> str:
    return f"/goals/{quote(goal_id, safe='')}" + (f"/{order}" if order else "")


def _show(goal: Mapping[str, Any], as_json: bool) -> None:
    from app.cli.goals_text import goal_page

    typer.echo(json_text(goal) if as_json else goal_page(goal))


def _asked(method: str, path: str, **more: Any) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with the_service(read_settings()) as (client, _):
            return await client.ask(method, f"/api{path}", **more)

    return asyncio.run(ask())
