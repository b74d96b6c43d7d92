"""Long work inside a step, watched: the turn stays owned, and /stop ends it within about a second."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.progress import say_still_working
from app.db import Tx
from app.sessions import calls, session, turns

T = TypeVar("T")

LOOK_EVERY_S = 1.0
SEEN_EVERY_LOOKS = 20


async def attend(harness: Harness, flow: Flow, work: Coroutine[None, None, T], call_id: int | None = None) -> T | None:
    """The result of `work`, or None when the turn was stopped and `work` cancelled.

    While it runs, `seen_at` of the turn (and of the call `call_id`) is renewed every 20 s, and the person hears now and
    then that it does. Being cancelled itself
    (shutdown) cancels the work, waits for its end and passes the cancellation on.
    """
    task = asyncio.ensure_future(work)
    looks = 0
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_EVERY_S))[0]:
            looks += 1
            if await _stopped(harness, flow):
                return None
            if looks % SEEN_EVERY_LOOKS == 0:
                await _renew(harness, flow, call_id)
                await say_still_working(harness, flow)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    return task.result()


async def _stopped(harness: Harness, flow: Flow) -> bool:
    turn = await harness.db.read(turns.find, flow.run_id)
    return turn is not None and turn.state == "stopped"


async def _renew(harness: Harness, flow: Flow, call_id: int | None) -> None:
    now = harness.clock.now()

    def renew(tx: Tx) -> None:
        session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
        if call_id is not None:
            calls.seen(tx, call_id, now)

    await harness.db.write(renew)
