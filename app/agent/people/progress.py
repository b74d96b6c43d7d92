"""A long turn says now and then that it is still at work, where nobody sees it otherwise."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from app.agent.announce import announce, notice
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.people.status import activity, duration
from app.channels import outbox
from app.db import Tx, moment
from app.sentences import Sentence, say
from app.sessions import calls, deposit, turns
from app.tables import deliveries

EVERY = timedelta(minutes=3)
STILL_WORKING = Sentence("Still working, {duration}, step {step}: {what}.")


async def say_still_working(harness: Harness, flow: Flow) -> None:
    """Put a line into the outbox of the turn that `flow` works for, three minutes after the last sign of life."""
    events = await harness.db.write(_say, harness, flow)
    if events:
        await announce(harness, events)


def _say(tx: Tx, harness: Harness, flow: Flow) -> list[dict[str, Any]]:
    now = harness.clock.now()
    turn = _told(tx, flow)
    if turn is None or turn.state != "live" or turns.holder(tx, turn.session_id) != turn.run_id:
        return []
    place = deposit.place_of(tx, turn.session_id, turn.run_id)
    # Clients that fetch see what a turn does by themselves.
    if place is None or place.channel not in harness.channels or place.channel in outbox.REPEATABLE:
        return []
    key = f"{turn.run_id}/progress"
    count, last = _earlier(tx, key)
    begun = moment(turn.started_at) or now
    if now - (last or begun) < EVERY:
        return []
    language = outbox.language_of(tx, turn.session_id)
    what = turn.tool or ("delegate_task" if turn.run_id != flow.run_id else activity(turn, language))
    text = say(STILL_WORKING, language, duration=duration(now, begun), step=turn.iteration + 1, what=what)
    return notice(tx, harness, f"{key}/{count}", turn.session_id, place, text)


def _told(tx: Tx, flow: Flow) -> Any | None:
    """The turn whose person waits: this one, or the one that waits for this sub-agent."""
    if flow.delegates:
        return turns.find(tx, flow.run_id)
    call = calls.of_child(tx, flow.session_key)
    return turns.find(tx, call.run_id) if call is not None else None


def _earlier(tx: Tx, key: str) -> tuple[int, datetime | None]:
    """How many lines this turn has put out already, and when the last one."""
    query = select(func.count(), func.max(deliveries.c.created_at)).where(
        deliveries.c.key.startswith(f"{key}/", autoescape=True)
    )
    count, last = tx.execute(query).one()
    return count, moment(last)
