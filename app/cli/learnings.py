"""`moab learnings`: see what the agent has learned, and decide what becomes part of its memory."""

import asyncio
from typing import Annotated, Any

import typer

from app.cli.service import AsJson, json_text, read_settings, the_service

learnings = typer.Typer(help="See what the agent has learned, and decide on it.", invoke_without_command=True)

LearningId = Annotated[str, typer.Argument(metavar="ID", help="The learning's id.")]


@learnings.callback()
def learnings_by_default(context: typer.Context) -> None:
    """See what the agent has learned, and decide on it; without a verb: list it."""
    if context.invoked_subcommand is None:
        list_learnings()


@learnings.command(name="list")
def list_learnings(as_json: AsJson = False) -> None:
    """Show what was learned, what was found most often first."""
    from app.cli.runs_text import learnings_page

    found = asyncio.run(_learnings())
    typer.echo(json_text({"learnings": found}) if as_json else learnings_page(found))


@learnings.command()
def promote(learning_id: LearningId) -> None:
    """Make one a line of MEMORY.md."""
    typer.echo(asyncio.run(_decide(learning_id, "promote")))


@learnings.command()
def drop(learning_id: LearningId) -> None:
    """Forget one for good, with its line in MEMORY.md."""
    typer.echo(asyncio.run(_decide(learning_id, "drop")))


async def _learnings() -> list[dict[str, Any]]:
    async with the_service(read_settings()) as (client, _):
        return await client.learnings()


async def _decide(learning_id: str, verdict: str) -> str:
    async with the_service(read_settings()) as (client, _):
        return str((await client.decide_learning(learning_id, verdict))["text"])
