"""`moab approvals`: see and decide what waits for a person."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.service import AsJson, json_text, read_settings, the_service

if TYPE_CHECKING:
    from app.config import Settings

approvals = typer.Typer(help="See and decide what waits for a person.", invoke_without_command=True)

Number = Annotated[str, typer.Argument(metavar="ID", help="The request's number.")]


@approvals.callback()
def approvals_by_default(context: typer.Context) -> None:
    """See and decide what waits for a person; without a verb: list it."""
    if context.invoked_subcommand is None:
        list_approvals()


@approvals.command(name="list")
def list_approvals(as_json: AsJson = False) -> None:
    """Show what waits, with the full arguments."""
    from app.cli.runs_text import approvals_page

    found = asyncio.run(_approvals(read_settings()))
    typer.echo(json_text({"approvals": found}) if as_json else approvals_page(found))


@approvals.command()
def approve(number: Number) -> None:
    """Let a request be carried out."""
    _decide(number, "approve", "")


@approvals.command()
def deny(
    number: Number, reason: Annotated[list[str] | None, typer.Argument(help="Why; the agent reads it.")] = None
) -> None:
    """Refuse a request."""
    _decide(number, "deny", " ".join(reason or ()))


@approvals.command()
def answer(number: Number, text: Annotated[list[str], typer.Argument(help="The answer.")]) -> None:
    """Answer a question of the agent."""
    _decide(number, "answer", " ".join(text))


async def _approvals(settings: "Settings") -> list[dict[str, Any]]:
    async with the_service(settings) as (client, _):
        return await client.approvals()


def _decide(number: str, decision: str, words: str) -> None:
    """Decide and say what came of it; exit code 1 if somebody was faster."""

    async def decide() -> dict[str, Any]:
        async with the_service(read_settings()) as (client, _):
            return await client.decide(number, decision, words)

    outcome = asyncio.run(decide())
    typer.echo(outcome["text"], err=not outcome["done"])
    if not outcome["done"]:
        raise typer.Exit(1)
