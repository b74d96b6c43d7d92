"""What follows a turn at the platform: the sign that a message is worked on goes, or says that it failed."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from app.agent.harness import Harness
from app.agent.loop import Steps
from app.channels.channel import Later
from app.events import Destination
from app.sessions import deposit

PAUSES_S = (2.0, 8.0, 30.0, 120.0, 300.0)
MAX_TRIES = 30
"""How often a sign is tried that a platform does not want now; then it stays as it is."""


def next_try(harness: Harness, asked: Later, tries: int) -> datetime | None:
    """When a sign may be tried again that was tried `tries` times before: as late as the platform asks, or later with
    every try. None: it is given up.
    """
    if tries >= (MAX_TRIES if asked.after_s is not None else len(PAUSES_S)):
        return None
    pause_s = asked.after_s if asked.after_s is not None else PAUSES_S[tries]
    return harness.clock.now() + timedelta(seconds=pause_s)


async def conclude(harness: Harness, run_id: str, after: int = 0, tries: int = 0) -> dict[str, Any]:
    """Let the platforms know that the messages of a turn (with ids over `after`) are dealt with.

    Best effort, and harmless when repeated. Answers with JSON: `until` when to go on, None if there is nothing left;
    and with what to be called again then.
    """
    for row in await harness.db.read(deposit.closed_by, run_id):
        if row.id <= after:
            continue
        asked = await conclude_message(harness, row)
        if isinstance(asked, Later) and (until := next_try(harness, asked, tries)) is not None:
            return {"run": run_id, "until": until.isoformat(), "after": after, "tries": tries + 1}
        after, tries = row.id, 0
    return {"run": run_id, "until": None}


async def concluded(harness: Harness, run_id: str) -> dict[str, Any]:
    """The same as a part of a step's answer: `signs`, if there is anything left to do."""
    signs = await conclude(harness, run_id)
    return {"signs": signs} if signs["until"] else {}


async def conclude_message(harness: Harness, row: Any) -> bool | Later:
    """The same for one message; `row` has its channel, destination and state."""
    channel = harness.channels.get(row.channel)
    if channel is None:
        return False
    return await channel.conclude(Destination.model_validate(row.destination), row.state != "failed")


async def conclude_rest(steps: Steps, harness: Harness, signs: Mapping[str, Any] | None) -> None:
    """Go on with what `conclude` left, as often and as late as the platform asks."""
    while signs and signs.get("until"):
        await steps.sleep_until("wait-conclude", datetime.fromisoformat(signs["until"]))
        signs = await steps.run("conclude", conclude, harness, signs["run"], signs["after"], signs["tries"])
