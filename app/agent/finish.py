"""The finish step: one transaction that makes the answer an outbox row, then the events that say so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.agent.announce import announce, reply_event
from app.agent.ending import note_ending
from app.agent.flow import Ending, Flow
from app.agent.harness import Harness
from app.agent.heartbeat.telling import is_silent, keep
from app.agent.heartbeat.wakes import rings
from app.agent.people.preview import in_its_place
from app.agent.quiet import is_quiet
from app.channels import outbox
from app.db import Tx
from app.events import Destination, TurnEnded
from app.failpoints import reach
from app.sentences import retell, say
from app.sessions import branch, deposit, session, transcript, turns
from app.sessions.session import Claim

MESSAGE_STATE = {"finished": "answered", "offered": "answered", "failed": "failed"}
ENDED = ("answered", "failed", "offered")
WANTED_NOW = ("person", "a scheduled task")
"""Whose answers are told at any hour: a person set the time of a scheduled task too."""

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
    ending, events = await harness.db.write(_end, harness, flow, request)
    reach("finish.committed")
    if events:
        await announce(harness, events)
    harness.notifier.publish(flow.session_key)
    reach("finish.announced")
    return ending.wire()


def _end(tx: Tx, harness: Harness, flow: Flow, request: Mapping[str, Any]) -> tuple[Ending, list[dict[str, Any]]]:
    """How the turn ends, and the events that say so."""
    ending = _close(tx, harness, flow, request)
    events: list[dict[str, Any]] = []
    reply = _reply(tx, harness, flow) if ending.kind in ENDED else None
    if reply is not None:
        number = turns.count_announcement(tx, flow.run_id)
        if outbox.exists(tx, f"{flow.run_id}/reply"):
            events.append(reply_event(harness, reply, flow.session_key, f"{flow.run_id}:reply:{number}"))
        ended = TurnEnded(session_key=flow.session_key, turn_id=flow.run_id)
        events.append(ended.to_wire(f"{flow.run_id}:ended:{number}"))
    elif ending.kind in ENDED:
        turns.settle(tx, flow.run_id, harness.clock.now())  # no event follows, and so nobody else would
    if ending.kind in ("failed", "offered") or (
        reply is not None and flow.start_head is not None
    ):  # what came in meanwhile was not shown and still wants an answer
        left = deposit.wake_next(tx, flow.session_id)
        events += [left] if left is not None else []
    return ending, events


def _close(tx: Tx, harness: Harness, flow: Flow, request: Mapping[str, Any]) -> Ending:
    now = harness.clock.now()
    state = str(request["state"])
    head = request.get("head")
    text = transcript.text_of(tx, head) if head is not None else str(request["text"])
    ending = Ending(kind="answered" if state == "finished" else state, text=_for_parent(flow, text))  # type: ignore[arg-type]
    turn = turns.find(tx, flow.run_id)
    if turn is not None and turn.state in MESSAGE_STATE:
        return ending
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
    if claim in (Claim.SUPERSEDED, Claim.STOPPED):
        return Ending(kind=claim.value)  # type: ignore[arg-type]  # the two kinds named above
    if state == "finished" and flow.start_head is None and deposit.unattached(tx, flow.session_id):
        if head is not None:
            transcript.mark_draft(tx, head)
        return Ending(kind="more")
    if (
        state == "offered" and flow.start_head is None
    ):  # what was asked is part of the conversation, or the answer to it would be a riddle
        _say(tx, flow, str(request["key"]), text, now)
    _write(tx, harness, flow, text, state, now, head)
    return ending


def _say(tx: Tx, flow: Flow, step_key: str, text: str, now: datetime) -> None:
    head = session.head_of(tx, flow.session_id)
    transcript.record_assistant(
        tx,
        flow.session_id,
        run_id=flow.run_id,
        step_key=step_key,
        parent=head,
        text=text,
        new_calls=[],
        data={},
        now=now,
    )


def _for_parent(flow: Flow, text: str) -> str:
    return "" if flow.delegates else text[:MAX_ENDING_CHARS]


def _write(tx: Tx, harness: Harness, flow: Flow, text: str, state: str, now: datetime, head: int | None) -> None:
    reply = _reply(tx, harness, flow)
    shown = deposit.open_inputs(tx, flow.session_id) if flow.start_head is None else ()
    waits = reply is not None and _waits_for_morning(tx, harness, flow, shown)
    turn = turns.find(tx, flow.run_id)
    quiet = is_quiet(text, state, [row.origin for row in shown] or [turn.origin if turn is not None else "person"])
    if flow.start_head is None:
        deposit.close_shown(tx, flow.session_id, flow.run_id, MESSAGE_STATE[state])
    else:
        branch.close_shown(tx, flow.run_id, head or flow.start_head, MESSAGE_STATE[state])
        if head is not None and flow.replay_of is not None:
            branch.take_place(tx, flow.session_id, flow.replay_of, flow.start_head, head)
    turns.end(tx, flow.run_id, state, now, error=None if state == "finished" else text[:500])
    note_ending(tx, harness, flow, [row.text for row in shown], text, state)
    outbox.withdraw(tx, f"{flow.run_id}/progress", "the answer came first")
    if quiet:
        return
    if reply is None:  # nothing follows such a turn
        turns.settle(tx, flow.run_id, now)
        return
    language = outbox.language_of(tx, flow.session_id)
    said = text if head is not None else retell(text, language)
    body = said if state != "failed" else f"{said} {say('(run {run_id})', language, run_id=flow.run_id)}"
    if waits:
        keep(tx, harness, f"{flow.run_id}/reply", flow.session_id, reply, body)
        return
    outbox.put(
        tx,
        f"{flow.run_id}/reply",
        session_id=flow.session_id,
        run_id=flow.run_id,
        kind="reply",
        channel=reply.channel,
        destination=Destination.model_validate(reply.destination),
        parts=in_its_place(tx, flow.run_id, harness.channels[reply.channel].parts(body)),
        text=body,
        now=now,
    )


def _waits_for_morning(tx: Tx, harness: Harness, flow: Flow, shown: Sequence[Any]) -> bool:
    """Whether the answer is to nobody who is up: machines asked for it at night, and at no hour that a person chose."""
    if any(row.origin in WANTED_NOW or rings(tx, row.message_key) for row in shown):
        return False
    return bool(shown) and is_silent(tx, harness, flow.session_id)


def _reply(tx: Tx, harness: Harness, flow: Flow) -> Reply | None:
    place = deposit.place_of(tx, flow.session_id, flow.run_id)
    if place is None or place.channel not in harness.channels:
        return None  # a sub-agent answers its parent, not a chat
    return Reply(place.channel, place.destination, flow.run_id)
