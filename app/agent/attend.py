"""Long work inside a step, watched: the turn stays owned, and /stop ends it within about a second."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TypeVar

from app.agent.delegation.pulse import Pulse, note_pulse
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.people.preview import Preview
from app.agent.people.progress import say_still_working
from app.channels import outbox
from app.db import Tx
from app.events import Destination
from app.sessions import calls, deposit, session, turns

T = TypeVar("T")

log = logging.getLogger("moab.agent")

LOOK_EVERY_S = 1.0
SEEN_EVERY_LOOKS = 20
SIGN_EVERY_LOOKS = 4
"""Telegram shows that somebody types for five seconds."""
SHOWN_WITHIN_S = 6.0
"""How long the end of the work waits for a preview that is on its way: what comes after it would be older than it."""


async def attend(
    harness: Harness,
    flow: Flow,
    work: Coroutine[None, None, T],
    call_id: int | None = None,
    preview: Preview | None = None,
    pulse: Pulse | None = None,
) -> T | None:
    """The result of `work`, or None when the turn was stopped and `work` cancelled.

    While it runs, `seen_at` of the turn (and of the call `call_id`) is renewed every 20 s, the sign that somebody types
    every 4 s, `preview` shows what is written by now, and the person hears now and then that it does. What `pulse` says
    of work on a task goes into the ledger. Being cancelled itself (shutdown) cancels the work, waits for its end and
    passes the cancellation on.
    """
    task = asyncio.ensure_future(work)
    showing: asyncio.Future[None] | None = None
    looks = 0
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_EVERY_S))[0]:
            looks += 1
            if await _stopped(harness, flow):
                return None
            if showing is None or showing.done():  # a platform that hangs must not keep /stop waiting
                showing = asyncio.ensure_future(_show(harness, flow, looks, preview))
            if looks % SEEN_EVERY_LOOKS == 0:
                await _renew(harness, flow, call_id, pulse is not None and pulse.take())
                await say_still_working(harness, flow)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        if showing is not None:
            await asyncio.wait({showing}, timeout=0 if task.cancelled() else SHOWN_WITHIN_S)
            showing.cancel()
            await asyncio.wait({showing})
    return task.result()


async def _show(harness: Harness, flow: Flow, looks: int, preview: Preview | None) -> None:
    """What the person sees of the work at one look; trouble with it is no trouble of the work."""
    try:
        await _shown(harness, flow, looks, preview)
    except Exception as error:
        log.info("What a turn is at could not be shown (%r); the work goes on.", error)


async def _shown(harness: Harness, flow: Flow, looks: int, preview: Preview | None) -> None:
    if preview is not None:
        await preview.show()
    if looks % SIGN_EVERY_LOOKS:
        return
    place = await harness.db.read(deposit.place_of, flow.session_id, flow.run_id)
    if place is not None and place.channel in harness.channels and place.channel not in outbox.REPEATABLE:
        await harness.channels[place.channel].acknowledge(Destination.model_validate(place.destination))


async def _stopped(harness: Harness, flow: Flow) -> bool:
    turn = await harness.db.read(turns.find, flow.run_id)
    return turn is not None and turn.state == "stopped"


async def _renew(harness: Harness, flow: Flow, call_id: int | None, gets_on: bool = False) -> None:
    now = harness.clock.now()

    def renew(tx: Tx) -> None:
        session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
        if call_id is not None:
            calls.seen(tx, call_id, now)
        if gets_on:
            note_pulse(tx, harness, flow)

    await harness.db.write(renew)
