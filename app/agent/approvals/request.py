"""A call that a person has to be asked about: the request as a row, its prompt, and what the row says on every wake."""

import os.path
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from app.agent.announce import announce
from app.agent.approvals.closing import close, decided_event, prompt_key, put_notice
from app.agent.approvals.policy import AT_HOME, FILE, MACHINE
from app.agent.approvals.text import ended_text, prompt_of, refused
from app.agent.flow import Ask, Call, Flow, Observation
from app.agent.harness import Harness
from app.agent.heartbeat.night import is_night, night_end
from app.agent.heartbeat.telling import is_silent, zone_of
from app.agent.tool import Effect, Tool
from app.channels import outbox
from app.db import Tx
from app.events import Destination
from app.failpoints import reach
from app.sessions import approvals, calls, turns
from app.sessions.approvals import AFTER_APPROVAL, OUTSIDE, Approval, Asked, State
from app.sessions.calls import CallRecord
from app.sessions.session import OWNED_FOR
from app.sessions.turns import Outcome

TO_DECIDE = timedelta(hours=1)
"""How long a person has at least for a request that waited for the morning."""

LOOK_EVERY_S = 300
"""The longest wait between two looks at the row: an event that came too early wakes nobody."""


def hold(
    tx: Tx, harness: Harness, flow: Flow, record: CallRecord, tool: Tool, arguments: Mapping[str, Any]
) -> Observation | None:
    """None if the call may run now; else what it came to, or `ask`: a person has to decide first.

    A call that nobody needs to be asked about costs nothing here. An approval is consumed for its own run and step. A
    call whose result comes from outside waits for that once it may be made.
    """
    verdict = "deny" if _writes_policy(tool, arguments, harness.workspace.root) else _verdict(flow, tool)
    if verdict == "allow" and not tool.outside:
        return None
    if verdict == "deny":
        return _end(tx, harness, record, refused(tool.name), ok=False)
    row = approvals.of_step(tx, flow.run_id, record.step_key)
    if verdict == "allow" or (row is not None and row.kind == OUTSIDE):
        return _held(tx, harness, flow, record, Wish(OUTSIDE, record.step_key, tool, arguments))
    asked = Wish("question" if tool.asks else "approval", record.step_key, tool, arguments)
    held = _held(tx, harness, flow, record, asked)
    if held is not None or not tool.outside:
        return held
    return _held(tx, harness, flow, record, Wish(OUTSIDE, record.step_key + AFTER_APPROVAL, tool, arguments))


@dataclass(frozen=True)
class Wish:
    """What a request is to be about: its kind, the step it is of, and the call."""

    kind: str
    step_key: str
    tool: Tool
    arguments: Mapping[str, Any]


def _held(tx: Tx, harness: Harness, flow: Flow, record: CallRecord, wish: Wish) -> Observation | None:
    """None once the request is approved; until then `ask`, or what the call came to."""
    tool = wish.tool
    bound_to = approvals.digest(tool.name, wish.arguments, str(harness.workspace.root))
    row = approvals.of_step(tx, flow.run_id, wish.step_key)
    if row is None:
        row = _request(tx, harness, flow, wish, bound_to)
        if row is None:
            return _end(tx, harness, record, f"{tool.name}: nobody can be asked here, so it was not done.", ok=False)
    now = harness.clock.now()
    if row.state == State.PENDING and row.expires_at <= now:
        close(tx, harness, row, State.EXPIRED)
        return Observation(kind="done", ok=False)
    if row.state == State.PENDING:
        return _wait(tx, harness, row, flow, now)
    if row.state in (State.APPROVED, State.USED) and row.digest == bound_to:
        approvals.use(tx, row)
        return None
    return _end(tx, harness, record, ended_text(row), ok=False)


def _verdict(flow: Flow, tool: Tool) -> str:
    harmless = tool.effect is not Effect.UNSAFE or tool.durable or tool.contained or tool.name in AT_HOME
    verdict = flow.policy.decide(tool.name, harmless=harmless)
    return "ask" if tool.asks and verdict == "allow" else verdict


def _writes_policy(tool: Tool, arguments: Mapping[str, Any], root: Path) -> bool:
    """Whether a tool that writes is given the path of the policy: the model must not decide what it is allowed."""
    if tool.effect is Effect.READ:
        return False
    policy = os.path.realpath(root / FILE).casefold()
    return any(os.path.realpath(os.path.join(root, text)).casefold() == policy for text in _paths(arguments))


def _paths(value: Any) -> Iterator[str]:
    """Every text in arguments that may be a path."""
    match value:
        case str() if value and len(value) < 1024 and "\0" not in value and "\n" not in value:
            yield os.path.expanduser(value)
        case Mapping():
            for inner in value.values():
                yield from _paths(inner)
        case list() | tuple():
            for inner in value:
                yield from _paths(inner)


def _request(tx: Tx, harness: Harness, flow: Flow, wish: Wish, bound_to: str) -> Approval | None:
    here = Asked(flow.session_id, "", Destination(chat_id=""), None)
    asked = here if wish.kind == OUTSIDE else approvals.whom(tx, flow.session_id, list(harness.channels))
    if asked is None:
        return None
    now = harness.clock.now()
    request = {
        "arguments": dict(wish.arguments) if wish.tool.asks else {},
        "folder": str(harness.workspace.root),
        "origin": flow.policy.origin,
        "approvers": list(flow.policy.approvers),
        "critical": is_night(now, harness.daily_log.zone, harness.settings.quiet),
        "sessionId": asked.session_id,
        "channel": asked.channel,
        "destination": asked.destination.model_dump(by_alias=True, mode="json"),
    }
    row = Approval(
        id=approvals.approval_id(flow.run_id, wish.step_key),
        session_id=flow.session_id,
        run_id=flow.run_id,
        step_key=wish.step_key,
        kind=wish.kind,
        tool=wish.tool.name,
        digest=bound_to,
        request=request,
        requester=asked.requester,
        created_at=now,
        expires_at=now + harness.settings.approval_lifetime,
    )
    approvals.add(tx, row)
    return row


def _wait(tx: Tx, harness: Harness, row: Approval, flow: Flow, now: datetime) -> Observation:
    """The turn stays owned until the request is closed: a restart in between must not wake another turn."""
    _wait_for(tx, flow, row)
    left = (row.expires_at - now).total_seconds()
    wait_s = max(1, min(LOOK_EVERY_S, int(left) + 1))
    asks = row.kind != OUTSIDE and not outbox.exists(tx, prompt_key(row))
    asks = asks and not _waits_for_morning(tx, harness, row, flow, now)
    return Observation(kind="ask", ask=Ask(id=row.id, wait_s=wait_s, prompt=asks))


def _waits_for_morning(tx: Tx, harness: Harness, row: Approval, flow: Flow, now: datetime) -> bool:
    """Whether it is night where the person is, a machine asks, and there is time enough to decide in the morning."""
    session_id = row.request["sessionId"]
    if flow.policy.origin != MACHINE or not is_silent(tx, harness, session_id):
        return False
    return row.expires_at >= night_end(now, zone_of(tx, harness, session_id), harness.settings.quiet) + TO_DECIDE


def _wait_for(tx: Tx, flow: Flow, row: Approval) -> None:
    whom = "a result from outside" if row.kind == OUTSIDE else "a person"
    what = f"Waits for {whom}: {row.kind} {row.id} ({row.tool})."
    turns.wait_until(tx, flow.run_id, row.expires_at + OWNED_FOR, Outcome.REQUIRES_ACTION, what)


def _end(tx: Tx, harness: Harness, record: CallRecord, text: str, *, ok: bool) -> Observation:
    calls.finish(tx, record.id, ok=ok, result=text, now=harness.clock.now())
    return Observation(kind="done", ok=ok)


async def prompt(harness: Harness, flow: Flow, call: Mapping[str, Any]) -> dict[str, Any]:
    """Put the request before the person. It is planned together with the wait, so no answer can come before that.

    Decided in the meantime (by its number, elsewhere): the event is sent once more, now that somebody waits.
    """
    reach("approval.asked")
    event = await harness.db.write(_prompt, harness, flow, Call.model_validate(call))
    reach("approval.prompted")
    if event is not None:
        await announce(harness, [event])
    harness.notifier.publish(flow.session_key)
    return {"kind": "prompted"}


def _prompt(tx: Tx, harness: Harness, flow: Flow, call: Call) -> dict[str, Any] | None:
    row = approvals.of_step(tx, flow.run_id, call.key)
    if row is None:
        return None
    if row.state != State.PENDING:
        return decided_event(tx, harness, row)
    _wait_for(tx, flow, row)  # a call beside this one may have taken it back
    language = outbox.language_of(tx, row.request["sessionId"])
    until = harness.daily_log.local(row.expires_at)
    said = approvals.speaker(tx, row.request["sessionId"])
    group = said is not None and bool(said.channel_meta.get("group"))
    text, buttons = prompt_of(row, approvals.arguments_of(tx, row), until, language, group=group)
    return put_notice(tx, harness, row, prompt_key(row), "prompt", text, {"buttons": buttons})
