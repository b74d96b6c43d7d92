"""What follows a turn at the platform: the sign that a message is worked on goes, or says that it failed."""

from typing import Any

from app.agent.harness import Harness
from app.events import Destination
from app.sessions import deposit


async def conclude(harness: Harness, run_id: str) -> None:
    """Let the platforms know that the messages of a turn are dealt with. Best effort, and harmless when repeated."""
    for row in await harness.db.read(deposit.closed_by, run_id):
        await conclude_message(harness, row)


async def conclude_message(harness: Harness, row: Any) -> None:
    """The same for one message; `row` has its channel, destination and state."""
    channel = harness.channels.get(row.channel)
    if channel is not None:
        await channel.conclude(Destination.model_validate(row.destination), row.state != "failed")
