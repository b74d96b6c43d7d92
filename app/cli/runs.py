"""`moab runs`, `moab run`, `moab sessions`, `moab usage`: what the service has done and what it cost."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.service import AsJson, json_text, read_settings, the_service

if TYPE_CHECKING:
    from app.config import Settings

BY = ("session", "day", "model")

runs = typer.Typer()


def _known(by: str) -> str:
    if by not in BY:
        raise typer.BadParameter(f"{by!r} is not accepted: {', '.join(BY)}.")
    return by


@runs.command(name="runs")
def list_runs(
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    status: Annotated[str | None, typer.Option(help="Only runs with this status, such as failed.")] = None,
    function: Annotated[str | None, typer.Option(help="Only runs of this function, such as heartbeat.")] = None,
) -> None:
    """List the latest runs of the running service; beats that went well only with --function or --status."""
    from app.cli.runs_text import runs_table

    found = asyncio.run(_runs(read_settings(), limit, status, function))
    typer.echo(json_text({"runs": found}) if as_json else runs_table(found))


@runs.command(name="run")
def show_run(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or how it begins.")],
    as_json: AsJson = False,
) -> None:
    """Show one run step by step."""
    from app.cli.runs_text import run_page

    found = asyncio.run(_run(read_settings(), run_id))
    typer.echo(json_text(found) if as_json else run_page(found))


@runs.command(name="usage")
def show_usage(
    by: Annotated[str, typer.Option(help="session, day or model.", callback=_known)] = "session",
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days back, today included.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show what the models cost."""
    from app.cli.runs_text import usage_table

    found = asyncio.run(_usage(read_settings(), by, days))
    typer.echo(json_text(found) if as_json else usage_table(found))


@runs.command(name="sessions")
def list_sessions(
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
) -> None:
    """List the open conversations; `moab chat --session NAME` opens one."""
    from app.cli.runs_text import sessions_table

    found = asyncio.run(_sessions(read_settings(), limit))
    typer.echo(json_text(found) if as_json else sessions_table(found["sessions"]))


async def _sessions(settings: "Settings", limit: int) -> dict[str, Any]:
    async with the_service(settings) as (client, _):
        return await client.ask("GET", "/api/sessions", query={"limit": limit})


async def _runs(settings: "Settings", limit: int, status: str | None, function: str | None) -> list[dict[str, Any]]:
    async with the_service(settings) as (client, _):
        return await client.runs(limit, status, function)


async def _run(settings: "Settings", run_id: str) -> dict[str, Any]:
    async with the_service(settings) as (client, _):
        return await client.run(run_id)


async def _usage(settings: "Settings", by: str, days: int) -> dict[str, Any]:
    async with the_service(settings) as (client, _):
        return await client.usage(by, days)
