"""The think step: show the model the transcript, record its words and wishes, or return the failure as a value."""

import functools
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from app.agent.approvals.policy import MACHINE
from app.agent.attend import attend
from app.agent.context.briefing import Look, brief
from app.agent.context.pictures import BLIND, has_pictures
from app.agent.context.state_block import open_work
from app.agent.fetch import files_to_fetch
from app.agent.flow import Call, Flow, Thought
from app.agent.harness import Harness
from app.agent.models import spending
from app.agent.models.llm import Asking, Completion, Facts, ModelFailure
from app.agent.people.preview import FIRST_AFTER_LOOKS, Preview
from app.agent.quiet import MONITOR, NO_REPLY
from app.agent.recovery import pause_s
from app.agent.repetition import fingerprint
from app.agent.tool import Effect, Toolbox
from app.agent.transcribe import recordings_to_hear
from app.channels import outbox
from app.db import Tx
from app.failpoints import reach
from app.log import redacted
from app.sessions import branch, session, transcript, turns, usage
from app.sessions.calls import running_elsewhere
from app.sessions.deposit import open_inputs
from app.sessions.session import Claim
from app.sessions.transcript import NewCall

log = logging.getLogger("moab.agent")

MAX_WISHES = 32
"""How many tool calls of one answer are taken up; a run may have 1,000 steps in all."""

MAX_NAME_CHARS = 64
"""Of a tool's name as the model wrote it: it becomes part of a step's id."""

PARENTS_TOOLS = (
    "delegate_task",
    "list_tasks",
    "cancel_task",
    "ask_user",
    "create_goal",
    "schedule_wake",
    "list_wakes",
    "cancel_wake",
)
"""What a sub-agent does not have."""

WAIT_FOR_OTHER_S = 1.0
"""How often a tool of another process is looked at; of one in this process the notifier tells."""


async def think(harness: Harness, flow: Flow, request: Mapping[str, Any]) -> dict[str, Any]:
    """A Thought as JSON. `request` has key, iteration, model, waits, shrink and nudge (see `Progress.request`)."""
    facts = await harness.llm.facts(str(request["model"]))
    look = await _look(harness, flow, request, facts)
    if isinstance(look, Thought):
        return look.wire()
    tools = toolbox_of(harness, flow).schemas()
    briefing = await brief(harness, flow, request, look, facts, tools)
    if briefing is None:
        return (await _unasked(harness, flow, request, Thought(kind="compact"))).wire()
    reach("think.asking")
    preview = _preview(harness, flow)
    on_text = preview.hear if preview is not None else _listener(harness, flow)
    patience_s = FIRST_AFTER_LOOKS if preview is not None else 0.0
    asking = Asking(flow.think, briefing.stable, on_text, patience_s, urgent=flow.policy.is_of_person)
    work = harness.llm.complete(str(request["model"]), briefing.messages, tools, asking)
    answer = await attend(harness, flow, work, preview=preview)
    reach("think.answered")
    if answer is None:
        return (await _unasked(harness, flow, request, Thought(kind="stopped"))).wire()
    if isinstance(answer, ModelFailure):
        return (await _failed(harness, flow, request, answer, has_pictures(briefing.messages))).wire()
    thought = await harness.db.write(_record, harness, flow, request, look.head, answer, facts)
    harness.notifier.publish(flow.session_key)
    reach("think.committed")
    return thought.wire()


def toolbox_of(harness: Harness, flow: Flow) -> Toolbox:
    """The tools of this turn: none for a tiny model; a sub-agent neither delegates nor talks to the user."""
    if flow.compact:
        return Toolbox()
    return harness.toolbox if flow.delegates else harness.toolbox.without(*PARENTS_TOOLS)


def _listener(harness: Harness, flow: Flow) -> Callable[[str], None] | None:
    """What hears of an answer as it grows; None where it is not streamed: nobody would see it, and it costs time."""
    if (
        flow.compact
        or flow.policy.origin == MACHINE
        or flow.channel not in outbox.REPEATABLE
        or not harness.settings.model_stream
    ):
        return None
    return functools.partial(harness.notifier.show, flow.session_key)


def _preview(harness: Harness, flow: Flow) -> Preview | None:
    """Where a chat sees an answer grow; nowhere for a sub-agent, whose answer is for its parent, and for a turn that a
    machine started, which may have nothing to tell.
    """
    settings, channel = harness.settings, flow.channel
    is_chat = flow.policy.origin != MACHINE and channel in harness.channels and channel not in outbox.REPEATABLE
    if not (is_chat and flow.delegates and settings.model_stream and settings.preview_answers) or flow.compact:
        return None
    return Preview(harness, flow)


async def _look(harness: Harness, flow: Flow, request: Mapping[str, Any], facts: Facts) -> Thought | Look:
    """Our own record if this step ran before; else the transcript with everything open attached.

    A tool that an older turn still runs is waited for: its result belongs to what the model is shown.
    """
    while True:
        found = await harness.db.write(_try_look, harness, flow, request, facts)
        harness.notifier.publish(flow.session_key)
        if found is not None:
            return found
        await harness.notifier.wait(flow.session_key, WAIT_FOR_OTHER_S)


def _try_look(tx: Tx, harness: Harness, flow: Flow, request: Mapping[str, Any], facts: Facts) -> Thought | Look | None:
    now = harness.clock.now()
    recorded = transcript.find_step(tx, flow.run_id, request["key"])
    if recorded is not None:
        return _thought(harness, flow, recorded, transcript.planned_calls(tx, recorded))
    running = running_elsewhere(tx, flow.session_id, flow.run_id, now)
    tool = running.name if running is not None else None
    doing = {"activity": "tool" if tool else "thinking", "tool": tool, "iteration": request["iteration"]}
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now, doing=doing)
    if claim is not Claim.HELD:
        return Thought(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    if running is not None:
        return None
    head = branch.head_for(tx, flow.session_id, flow.run_id, flow.start_head, request.get("head"))
    entries = transcript.load(tx, flow.session_id, head)
    if files_to_fetch(entries):
        return Thought(kind="fetch")
    if recordings_to_hear(entries):
        return Thought(kind="transcribe")
    last = usage.last_thought(tx, flow.session_id)
    tokens = spending.expected_tokens(harness, entries, last, facts)
    refused = spending.reserve(tx, harness, flow, str(request["key"]), str(request["model"]), facts, tokens, now)
    if refused is not None:
        return Thought(kind="spent", message=refused)
    return Look(head, entries, last, open_work(tx, flow.session_id))


def _thought(harness: Harness, flow: Flow, head: int, planned: list[tuple[str, str, str]]) -> Thought:
    """The recorded message as a thought. Its calls run side by side if all of them only read."""
    if not planned:
        return Thought(kind="say", head=head)
    tools = toolbox_of(harness, flow).tools
    found = [tools.get(name) for _, name, _ in planned]
    reading = all(tool is not None and tool.effect is Effect.READ and not tool.durable for tool in found)
    calls = tuple(
        Call(
            key=key,
            name=name,
            durable=tool is not None and tool.durable,
            beside=len(planned) if reading else 1,
            print=fingerprint(name, arguments),
        )
        for (key, name, arguments), tool in zip(planned, found, strict=True)
    )
    return Thought(kind="act", head=head, calls=calls)


async def _unasked(harness: Harness, flow: Flow, request: Mapping[str, Any], thought: Thought) -> Thought:
    """`thought`, once what was held for the call is given back."""
    await harness.db.write(usage.release, flow.run_id, str(request["key"]))
    return thought


async def _failed(
    harness: Harness, flow: Flow, request: Mapping[str, Any], failure: ModelFailure, saw: bool
) -> Thought:
    until = harness.clock.now() + timedelta(seconds=pause_s(request["waits"], failure.retry_after_s))

    def wait(tx: Tx) -> None:
        usage.release(tx, flow.run_id, str(request["key"]))
        turns.wait_until(tx, flow.run_id, until)

    await harness.db.write(wait)
    log.info("The model call failed (%s): %s", failure.trouble, failure.message, extra={"run": flow.run_id})
    message = redacted(failure.message)[:300]
    return Thought(
        kind="failed",
        trouble=failure.trouble,
        message=message,
        wait_until=until.isoformat(),
        saw=saw,
        advice=failure.advice,
    )


def _record(
    tx: Tx,
    harness: Harness,
    flow: Flow,
    request: Mapping[str, Any],
    head: int | None,
    answer: Completion,
    facts: Facts,
) -> Thought:
    """Words are recorded only by the holder of the session; what the call cost, always."""
    now = harness.clock.now()
    tools = toolbox_of(harness, flow).tools
    number = str(request["key"]).partition("#")[2]
    calls = [
        NewCall(
            step_key=f"tool#{number}.{i}",
            provider_id=wish.id,
            name=wish.name[:MAX_NAME_CHARS],
            arguments=wish.arguments,
            effect=tools[wish.name].effect if wish.name in tools else Effect.READ,
        )
        for i, wish in enumerate(answer.wishes[:MAX_WISHES])
    ]
    spending.settle(tx, flow, str(request["key"]), str(request["model"]), facts, answer, now)
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
    if claim is not Claim.HELD:
        return Thought(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    text = answer.text
    if not text.strip() and not calls:
        if {row.origin for row in open_inputs(tx, flow.session_id)} != {MONITOR}:
            return Thought(kind="empty", head=head)
        text = NO_REPLY  # it has said what it has to say with a tool
    message_id = transcript.record_assistant(
        tx,
        flow.session_id,
        run_id=flow.run_id,
        step_key=request["key"],
        parent=head,
        text=text,
        new_calls=calls,
        data=_about(request, answer),
        now=now,
        moves_head=flow.start_head is None,
    )
    return _thought(harness, flow, message_id, [(c.step_key, c.name, c.arguments) for c in calls])


def _about(request: Mapping[str, Any], answer: Completion) -> dict[str, Any]:
    """What an answer's row says besides its words."""
    thinking = {"thinking": answer.thinking} if answer.thinking else {}
    return {"model": request["model"]} | thinking | ({BLIND: True} if request.get("blind") else {})
