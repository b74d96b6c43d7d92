"""`moab state` and `moab heartbeat`: what is going on, and a beat at once."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.service import json_text, read_settings, the_service

if TYPE_CHECKING:
    from app.cli.client import ServiceClient

state = typer.Typer()

WAIT_S = 30.0
LOOK_EVERY_S = 0.25


@state.command(name="state")
def show_state(
    as_json: Annotated[bool, typer.Option("--json", help="It is JSON in any case.")] = False,
) -> None:
    """Print what is going on as one JSON document: goals, tasks, wakes, approvals, watched folders, beats."""
    typer.echo(json_text(asyncio.run(_state())))


@state.command()
def heartbeat(
    now: Annotated[bool, typer.Option("--now", help="Let the heart beat at once, and wait for it.")] = False,
) -> None:
    """Say when the heart beat last and when it beats next."""
    found = asyncio.run(_beat(now))
    typer.echo(_told(found["beat"]))


def _told(beat: dict[str, Any]) -> str:
    from app.cli.runs_text import short_time

    last = f"The heart beat last at {short_time(beat['last'])}." if beat["last"] else "The heart has not beaten yet."
    return f"{last} It beats next at {short_time(beat['next'])} ({beat['cron']}, {beat['zone']})."


async def _state() -> dict[str, Any]:
    async with the_service(read_settings()) as (client, _):
        return await client.state()


async def _beat(now: bool) -> dict[str, Any]:
    async with the_service(read_settings()) as (client, _):
        if now:
            return await _wait_for_beat(client, (await client.beat_now())["last"])
        return await client.state()


async def _wait_for_beat(client: "ServiceClient", last: str | None) -> dict[str, Any]:
    """The state after the next beat, or as it is after half a minute."""
    found = await client.state()
    for _ in range(int(WAIT_S / LOOK_EVERY_S)):
        if found["beat"]["last"] != last:
            break
        await asyncio.sleep(LOOK_EVERY_S)
        found = await client.state()
    return found
