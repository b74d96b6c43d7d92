"""How a request ends: who waits for it is woken, and its prompt says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.agent.announce import reply_event
from app.agent.approvals.text import ended_text
from app.agent.harness import Harness
from app.channels import outbox
from app.db import Tx
from app.events import ApprovalDecided, Destination
from app.ids import new_id
from app.sessions import approvals, calls
from app.sessions.approvals import Approval, State


@dataclass(frozen=True)
class Place:
    """Where a delivery goes, as `reply_event` reads it."""

    channel: str
    destination: Mapping[str, Any]


def prompt_key(row: Approval) -> str:
    return f"approval/{row.id}"


def put_notice(
    tx: Tx, harness: Harness, row: Approval, key: str, kind: str, text: str, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """A delivery to where the request was put, with `extra` on its last part; the event that sends it."""
    channel, destination = row.request["channel"], Destination.model_validate(row.request["destination"])
    *parts, last = harness.channels[channel].parts(text)
    outbox.put(
        tx,
        key,
        session_id=row.request["sessionId"],
        run_id=None,  # no reply of the turn
        kind=kind,
        channel=channel,
        destination=destination,
        parts=[*parts, {**last, **extra}],
        text=text,
        now=harness.clock.now(),
    )
    place = Place(channel, row.request["destination"])
    return reply_event(harness, place, approvals.session_key(tx, row))


def decided_event(tx: Tx, harness: Harness, row: Approval) -> dict[str, Any]:
    """The early wake for who waits for `row`, under a fresh id."""
    decided = ApprovalDecided(
        approval_id=row.id,
        session_key=approvals.session_key(tx, row),
        decision=row.state,
        by=row.decided_by,
        note=row.note,
    )
    return decided.to_wire(f"{row.id}:{new_id(harness.clock)}")


def close(tx: Tx, harness: Harness, row: Approval, state: State) -> list[dict[str, Any]]:
    """Close a pending request that nobody decided; the events that say so. Nothing if somebody was faster.

    An expired one ends its call, so that the model reads why; a superseded one belongs to a turn that is over.
    """
    now = harness.clock.now()
    if not approvals.decide(tx, row, state, now):
        return []
    closed = approvals.find(tx, row.id) or row
    if state is State.EXPIRED and (record := calls.find(tx, row.run_id, row.call_key)) is not None:
        calls.finish(tx, record.id, ok=False, result=ended_text(closed), now=now)
    return [*mark_prompt(tx, harness, closed), decided_event(tx, harness, closed)]


def mark_prompt(tx: Tx, harness: Harness, row: Approval) -> list[dict[str, Any]]:
    """Let the prompt say how its request ended: by editing it where the platform can, else in a line of its own.

    A decision needs no such line: who decided is told, and nothing else happened.
    """
    key, text = prompt_key(row), ended_text(row, outbox.language_of(tx, row.request["sessionId"]))
    outbox.withdraw(tx, key, text)
    said = outbox.parts_of(tx, key)
    if not said or said[-1].state == "expired":
        return []
    message_id = (said[-1].receipt or {}).get("messageId")
    if message_id is not None:
        whole = f"{said[0].text}\n\n{text}" if len(said) == 1 else text
        return [put_notice(tx, harness, row, f"closed-{key}", "notice", whole, {"edit": message_id})]
    if row.state in (State.EXPIRED, State.SUPERSEDED):
        return [put_notice(tx, harness, row, f"closed-{key}", "notice", text, {})]
    return []


def supersede(tx: Tx, harness: Harness, session_id: str, run_id: str) -> list[dict[str, Any]]:
    """At a newer turn's claim: what older turns of the session asked is closed, visibly; the events that say so."""
    older = approvals.of_older_turns(tx, session_id, run_id)
    return [event for row in older for event in close(tx, harness, row, State.SUPERSEDED)]


def sweep_approvals(tx: Tx, harness: Harness) -> list[dict[str, Any]]:
    """Close what is overdue or belongs to a turn that is over, and repeat decisions that may not have been heard."""
    now = harness.clock.now()
    events: list[dict[str, Any]] = []
    for row in approvals.pending(tx):
        if not approvals.is_awaited(tx, row):
            events += close(tx, harness, row, State.SUPERSEDED)
        elif row.expires_at <= now:
            events += close(tx, harness, row, State.EXPIRED)
    return events + [decided_event(tx, harness, row) for row in approvals.unheard(tx)]
