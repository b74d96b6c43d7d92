"""The first step of a turn: store what came, take the session, and fix the conditions of the turn."""

import asyncio
import logging
from typing import Any

from app.agent.announce import announce
from app.agent.approvals.closing import supersede
from app.agent.approvals.policy import FILE, Policy, cautious_policy, make_policy, origin_of
from app.agent.backlog import take_up
from app.agent.context.bootstrap import standing
from app.agent.flow import Flow, Stop, Taken
from app.agent.harness import Harness
from app.agent.models.chosen import choose_models
from app.agent.people.gate import admit_started
from app.agent.people.preview import give_up
from app.agent.replay import take_again
from app.channels import outbox
from app.db import Tx
from app.errors import BadInput
from app.events import MessageReceived
from app.failpoints import reach
from app.ids import new_id
from app.sessions import calls, edits, people, session, turns, usage
from app.sessions.deposit import album_until, attach_open, deposit, open_inputs
from app.sessions.session import Claim

log = logging.getLogger("moab.agent")


async def receive(
    harness: Harness,
    run_id: str,
    event: MessageReceived,
    message_key: str,
    delegates: bool = True,
    event_id: str = "",
) -> dict[str, Any]:
    """A Flow as JSON: the turn's conditions, or why this run is no turn. Safe to repeat.

    `event_id` tells a run that somebody started again from one that only brings the same message.
    """
    if not await admit_started(harness, event, message_key):
        return Flow(run_id=run_id, session_key=event.session_key, session_id="", stop="nothing", model="").wire()
    taken = await harness.db.write(_begin, harness, run_id, event, message_key, delegates, event_id)
    harness.notifier.publish(event.session_key)
    reach("receive.committed")
    if taken.events:
        await announce(harness, taken.events)
    settings = harness.settings
    who = await harness.db.read(people.principal_of, taken.session_id, settings.approval_admins)
    if taken.stop is None:
        await asyncio.to_thread(harness.at(who.folder).workspace.prepare)
    flow = Flow(
        run_id=run_id,
        session_key=event.session_key,
        session_id=taken.session_id,
        channel=event.channel,
        stop=taken.stop,
        question=taken.question,
        wait_until=taken.wait_until,
        start_head=taken.start_head,
        replay_of=taken.replay_of,
        speaks=taken.speaks,
        model=taken.models.main,
        fallback=taken.models.fallback,
        summary_model=taken.models.summary,
        think=taken.models.think,
        compact=taken.models.is_tiny,
        delegates=delegates,
        max_iterations=settings.agent_max_iterations,
        code_version=harness.code_version,
        principal=who.folder,
        zone=who.zone,
        policy=await policy_now(harness, origin_of(event.channel, event.origin)),
        standing=taken.standing,
    )
    return flow.wire()


async def policy_now(harness: Harness, origin: str) -> Policy:
    """The policy for a turn that begins now. A file that cannot be understood allows nothing, and the log says why."""
    general = harness.settings.tool_policy
    try:
        text = await asyncio.to_thread(harness.workspace.text_of, FILE)
        return make_policy(general, text, origin, harness.platforms)
    except (BadInput, OSError) as error:
        log.error("%s is refused, and what it might allow is asked for: %s", FILE, error, extra={"action": "policy"})
        return cautious_policy(general, origin)


def _begin(
    tx: Tx, harness: Harness, run_id: str, event: MessageReceived, message_key: str, delegates: bool, event_id: str
) -> Taken:
    now = harness.clock.now()
    if event.edited is not None:  # `accept` did so already; what came past it has not been done yet
        edits.edit(tx, event, message_key, now)
    if not delegates and session.find(tx, event.session_key) is None and calls.is_called_off(tx, message_key):
        return Taken("", "superseded")
    stored = deposit(tx, event, message_key, new_session_id=new_id(harness.clock), now=now)
    if stored is None:
        return Taken("", "nothing")
    again = take_again(tx, harness, run_id, event, message_key, event_id) if event_id and not stored.fresh else None
    if again is not None:
        return again
    if (until := album_until(tx, stored.session_id, now)) is not None and turns.find(tx, run_id) is None:
        return Taken(stored.session_id, "waiting", wait_until=until.isoformat())
    stop = _take(tx, harness, run_id, event, stored.session_id)
    if stop is not None:
        return Taken(stored.session_id, stop)
    closed = [
        *supersede(tx, harness, stored.session_id, run_id),
        *give_up(tx, harness, stored.session_id, run_id),
    ]
    calls.call_off_unborn(tx, stored.session_id, run_id)
    usage.release_older(tx, stored.session_id, run_id)
    models = choose_models(harness.settings, *_chosen(tx, event, stored.session_id, delegates), delegates=delegates)
    attach_open(tx, stored.session_id)
    turns.start(
        tx,
        run_id,
        stored.session_id,
        message_key=message_key,
        event_id=event_id or None,
        origin=event.origin,
        model=models.main,
        boot_id=harness.boot_id,
        now=now,
    )
    speaks = event.channel not in outbox.REPEATABLE and session.is_spoken(tx, stored.session_id)
    begins_with = "" if models.is_tiny else standing(tx, harness, stored.session_id, event.session_key)
    question = take_up(tx, harness, stored.session_id)
    return Taken(stored.session_id, None, closed, question, models, speaks, standing=begins_with)


def _chosen(tx: Tx, event: MessageReceived, session_id: str, delegates: bool) -> tuple[str, str]:
    """What people chose for the session; for a sub-agent's, what they chose where it was asked."""
    asked_by = None if delegates else calls.of_child(tx, event.session_key)
    return session.choices(tx, asked_by.session_id if asked_by is not None else session_id)


def _take(tx: Tx, harness: Harness, run_id: str, event: MessageReceived, session_id: str) -> Stop | None:
    """Claim the session if there is anything to answer; a run without work must not take it from one that has."""
    turn = turns.find(tx, run_id)
    if turn is None and not open_inputs(tx, session_id):
        return "nothing"
    claim = session.claim(tx, session_id, run_id, boot_id=harness.boot_id, now=harness.clock.now(), steers=event.steers)
    match claim:
        case Claim.HELD:
            return None
        case Claim.BUSY:
            return "busy"
        case Claim.STALE:
            return None  # the next think step sees it again and makes the offer
        case Claim.STOPPED:
            return "stopped"
        case _:
            return "superseded"
