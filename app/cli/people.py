"""`moab people` and `moab deliveries`: who may talk to the agent, and what does not reach them."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.service import AsJson, json_text, read_settings, the_service

if TYPE_CHECKING:
    from app.config import Settings

people = typer.Typer(help="See and change who may talk to the agent.", invoke_without_command=True)

Who = Annotated[str, typer.Argument(metavar="ID", help="Such as telegram:4711; `moab people` lists them.")]


@people.callback()
def people_by_default(context: typer.Context) -> None:
    """See and change who may talk to the agent; without a verb: list them."""
    if context.invoked_subcommand is None:
        list_people()


@people.command(name="list")
def list_people(as_json: AsJson = False) -> None:
    """Show who was paired, shut out, or turned away."""
    from app.cli.people_text import people_table

    found = _ask("GET", "/api/people")
    typer.echo(json_text(found) if as_json else people_table(found["people"]))


@people.command()
def pair(admin: Annotated[bool, typer.Option("--admin", help="Who may invite others and decide.")] = False) -> None:
    """Make a code that lets one person in."""
    found = _ask("POST", "/api/people/codes", {"role": "admin" if admin else "member"})
    typer.echo(f"{found['code']} lets one {found['role']} in, until {found['until']}: send it to the bot.")


@people.command()
def revoke(person: Who) -> None:
    """Shut somebody out, whatever the settings say."""
    found = _ask("POST", f"/api/people/{person}/revoke")
    typer.echo(f"{found['id']} is shut out; `moab people readmit` ends that.")


@people.command()
def readmit(person: Who) -> None:
    """End that somebody is shut out."""
    found = _ask("POST", f"/api/people/{person}/readmit")
    typer.echo(f"{found['id']} is shut out no more: the settings, or a new code, let them in.")


@people.command()
def export(person: Who) -> None:
    """Print everything that is kept of somebody, as JSON."""
    typer.echo(json_text(_ask("GET", f"/api/people/{person}/export")))


@people.command()
def forget(person: Who, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete everything that is kept of somebody: messages, memory, files, records of runs."""
    if not yes:
        kept = _counted(_ask("GET", f"/api/people/{person}")["sessions"])
        if not typer.confirm(f"Delete everything about {person} ({kept}), for good?"):
            raise typer.Exit(1)
    found = _ask("POST", f"/api/people/{person}/forget")
    typer.echo(f"Deleted: {_counted(found['sessions'])} of {found['id']}. Memory and files: {found['memory']}.")
    if found["staysShutOut"]:
        typer.echo("The id alone stays, with the word that it is shut out; `moab people readmit` ends that.")
    if found["runs"] is None:
        typer.echo("The records of runs lie with Inngest and are deleted there.")
    elif found["openRuns"]:
        typer.echo(f"{found['openRuns']} runs cannot be ended and stay: do this again when no function is paused.")


def _counted(conversations: int) -> str:
    return "1 conversation" if conversations == 1 else f"{conversations} conversations"


def deliveries(
    as_json: AsJson = False, every: Annotated[bool, typer.Option("--all", help="Also what arrived.")] = False
) -> None:
    """Show what does not reach its chat, and why."""
    from app.cli.people_text import deliveries_table

    found = _ask("GET", f"/api/deliveries?all={str(every).lower()}")
    typer.echo(json_text(found) if as_json else deliveries_table(found["deliveries"]))


def _ask(method: str, path: str, body: Any = None) -> dict[str, Any]:
    return asyncio.run(_asked(read_settings(), method, path, body))


async def _asked(settings: "Settings", method: str, path: str, body: Any) -> dict[str, Any]:
    async with the_service(settings) as (client, _):
        return await client.ask(method, path, body)
