"""The finish step: one transaction that makes the answer an outbox row, then the events that say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.agent.announce import announce, reply_event
from app.agent.flow import Ending, Flow
from app.agent.harness import Harness
from app.channels import outbox
from app.db import Tx
from app.events import Destination, TurnEnded
from app.failpoints import reach
from app.sessions import deposit, session, transcript, turns
from app.sessions.session import Claim

MESSAGE_STATE = {"finished": "answered", "offered": "answered", "failed": "failed"}
MAX_ENDING_CHARS = 12_000


@dataclass(frozen=True)
class Reply:
    """Where the answer goes: the newest input that names a place."""

    channel: str
    destination: dict[str, Any]
    run_id: str


async def finish(harness: Harness, flow: Flow, request: Mapping[str, Any]) -> dict[str, Any]:
    """An Ending as JSON. `request` has head (an assistant message) or text, and state: finished, failed, offered.

    Still holder and nothing newer than what the model saw: the text, the answered marks, the delivery rows and the end
    of the turn are written together. Done before: only the events are sent again, under fresh ids.
    """
    async with harness.db.write() as tx:
        ending = await _close(tx, harness, flow, request)
        reply = await _reply(tx, harness, flow) if ending.kind in ("answered", "failed", "offered") else None
        number = await turns.count_announcement(tx, flow.run_id) if reply else 0
        left = await deposit.wake_next(tx, flow.session_id) if ending.kind in ("failed", "offered") else None
    reach("finish.committed")
    events: list[dict[str, Any]] = []
    if reply is not None:
        events.append(reply_event(harness, reply, flow.session_key, f"{flow.run_id}:reply:{number}"))
        ended = TurnEnded(session_key=flow.session_key, turn_id=flow.run_id)
        events.append(ended.to_wire(f"{flow.run_id}:ended:{number}"))
    if left is not None:
        events.append(left)
    if events:
        await announce(harness, events)
    harness.notifier.publish(flow.session_key)
    reach("finish.announced")
    return ending.wire()


async def _close(tx: Tx, harness: Harness, flow: Flow, request: Mapping[str, Any]) -> Ending:
    now = harness.clock.now()
    state = str(request["state"])
    head = request.get("head")
    text = await transcript.text_of(tx, head) if head is not None else str(request["text"])
    ending = Ending(kind="answered" if state == "finished" else state, text=_for_parent(flow, text))  # type: ignore[arg-type]
    turn = await turns.find(tx, flow.run_id)
    if turn is not None and turn.state in MESSAGE_STATE:
        return ending
    claim = await session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
    if claim in (Claim.SUPERSEDED, Claim.STOPPED):
        return Ending(kind=claim.value)  # type: ignore[arg-type]  # the two kinds named above
    if state == "finished" and await deposit.unattached(tx, flow.session_id):
        if head is not None:
            await transcript.mark_draft(tx, head)
        return Ending(kind="more")
    await _write(tx, harness, flow, text, state, now)
    return ending


def _for_parent(flow: Flow, text: str) -> str:
    return "" if flow.delegates else text[:MAX_ENDING_CHARS]


async def _write(tx: Tx, harness: Harness, flow: Flow, text: str, state: str, now: datetime) -> None:
    reply = await _reply(tx, harness, flow)
    await deposit.close_shown(tx, flow.session_id, flow.run_id, MESSAGE_STATE[state])
    await turns.end(tx, flow.run_id, state, now, error=None if state == "finished" else text[:500])
    if reply is None:
        return
    body = text if state != "failed" else f"{text} (run {flow.run_id})"
    await outbox.put(
        tx,
        f"{flow.run_id}/reply",
        session_id=flow.session_id,
        run_id=flow.run_id,
        kind="reply",
        channel=reply.channel,
        destination=Destination.model_validate(reply.destination),
        parts=harness.channels[reply.channel].parts(body),
        text=body,
        now=now,
    )


async def _reply(tx: Tx, harness: Harness, flow: Flow) -> Reply | None:
    place = await deposit.place_of(tx, flow.session_id, flow.run_id)
    if place is None or place.channel not in harness.channels:
        return None  # a sub-agent answers its parent, not a chat
    return Reply(place.channel, place.destination, flow.run_id)
