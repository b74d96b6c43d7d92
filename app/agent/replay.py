"""Runs that an operator starts again: told by records, done again as a new turn, or ended with the reason."""

from datetime import timedelta
from typing import Any

from app.agent.announce import announce
from app.agent.approvals.closing import supersede
from app.agent.flow import Flow, Taken
from app.agent.harness import Harness
from app.agent.models.chosen import Models, choose_models
from app.db import Tx
from app.events import MessageReceived
from app.sessions import branch, deposit, session, turns, usage
from app.sessions.session import Claim

WAIT = timedelta(seconds=20)
"""How long a replay sleeps before it looks again whether a live turn has ended."""

ENDED = ("finished", "failed", "offered", "stopped", "superseded")


def take_again(
    tx: Tx, harness: Harness, run_id: str, event: MessageReceived, message_key: str, event_id: str, of_run: str = ""
) -> Taken | None:
    """What becomes of a run whose event has started a turn before; None if that is not so.

    `of_run` is the run whose memos this one was given. A live turn is waited for. What was answered by the turn of
    another event is not done again; else the turn begins anew from where it began, and its answer is the new one.
    """
    message = branch.inputs_of(tx, message_key)
    if message is None:
        return None
    noted = message.data.get("replay") or {}
    if turns.find(tx, run_id) is not None:
        if noted.get("run") != run_id:
            return None
        models = _models(tx, harness, message.session_id)
        return Taken(message.session_id, models=models, start_head=noted["start"], replay_of=noted["of"])
    earlier = turns.find(tx, of_run) if of_run else turns.of_event(tx, event_id, run_id)
    if earlier is None:
        return None
    now = harness.clock.now()
    if session.is_live(tx, turns.holder(tx, message.session_id), now):
        return Taken(message.session_id, "waiting", wait_until=(now + WAIT).isoformat())
    if message.state == "open" and not of_run:
        return None  # nobody has answered it: an ordinary turn
    if message.answered_by not in (None, earlier.run_id):
        woken = deposit.wake_next(tx, message.session_id)
        return Taken(message.session_id, "answered", [woken] if woken else [])
    claim = session.claim(tx, message.session_id, run_id, boot_id=harness.boot_id, now=now, steers=False)
    if claim is not Claim.HELD:
        return Taken(message.session_id, "stopped" if claim is Claim.STOPPED else "superseded")
    return _begin(tx, harness, run_id, event, message, message_key, event_id, earlier)


def _begin(
    tx: Tx,
    harness: Harness,
    run_id: str,
    event: MessageReceived,
    message: Any,
    message_key: str,
    event_id: str,
    earlier: Any,
) -> Taken:
    closed = supersede(tx, harness, message.session_id, run_id)
    usage.release_older(tx, message.session_id, run_id)
    models = _models(tx, harness, message.session_id)
    start = branch.begin(tx, message.session_id, message_key, earlier.run_id)
    branch.note_replay(tx, message, {"run": run_id, "of": earlier.run_id, "start": start})
    turns.start(
        tx,
        run_id,
        message.session_id,
        message_key=message_key,
        event_id=event_id,
        origin=event.origin,
        model=models.main,
        boot_id=harness.boot_id,
        now=harness.clock.now(),
    )
    return Taken(message.session_id, None, closed, models=models, start_head=start, replay_of=earlier.run_id)


def _models(tx: Tx, harness: Harness, session_id: str) -> Models:
    return choose_models(harness.settings, *session.choices(tx, session_id), delegates=True)


async def resume(
    harness: Harness, run_id: str, event: MessageReceived, message_key: str, event_id: str, memo: dict[str, Any]
) -> dict[str, Any]:
    """A Flow as JSON for a run that was given the first memos of another: the same conditions, under its own id."""
    flow = Flow.model_validate(memo)

    def take(tx: Tx) -> Taken | None:
        return take_again(tx, harness, run_id, event, message_key, event_id, of_run=flow.run_id)

    taken = await harness.db.write(take)
    if taken is None:
        return flow.model_copy(update={"run_id": run_id, "stop": "nothing"}).wire()
    if taken.events:
        await announce(harness, taken.events)
    harness.notifier.publish(event.session_key)
    fresh = {"run_id": run_id, "stop": taken.stop, "wait_until": taken.wait_until}
    return flow.model_copy(update=fresh | {"start_head": taken.start_head, "replay_of": taken.replay_of}).wire()
