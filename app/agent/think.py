"""The think step: show the model the transcript, record its words and wishes, or return the failure as a value."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from app.agent.attend import attend
from app.agent.context import NUDGE, budget_note, build_context
from app.agent.flow import Call, Flow, Thought
from app.agent.harness import Harness
from app.agent.llm import Completion, ModelFailure
from app.agent.prompts import compact_prompt, system_prompt
from app.agent.pruning import Message
from app.agent.recovery import pause_s
from app.agent.repetition import fingerprint, repeat_note
from app.agent.tool import Effect, Toolbox
from app.db import Tx, insert_if_absent
from app.failpoints import reach
from app.log import redacted
from app.sessions import session, transcript, turns
from app.sessions.calls import running_elsewhere
from app.sessions.deposit import attach_open
from app.sessions.session import Claim
from app.sessions.transcript import Entry, NewCall
from app.tables import usage

log = logging.getLogger("moab.agent")

MAX_WISHES = 32
"""How many tool calls of one answer are taken up; a run may have 1,000 steps in all."""

COMPACT_MESSAGES = 8
"""How many messages a tiny model is shown."""

MAX_NAME_CHARS = 64
"""Of a tool's name as the model wrote it: it becomes part of a step's id."""

WAIT_FOR_OTHER_S = 1.0
"""How often a tool of another process is looked at; of one in this process the notifier tells."""


async def think(harness: Harness, flow: Flow, request: Mapping[str, Any]) -> dict[str, Any]:
    """A Thought as JSON. `request` has key, iteration, model, waits, shrink and nudge (see `Progress.request`)."""
    shown = await _look(harness, flow, request)
    if isinstance(shown, Thought):
        return shown.wire()
    head, entries = shown
    toolbox = toolbox_of(harness, flow)
    messages = await _messages(harness, flow, request, entries)
    reach("think.asking")
    asking = harness.llm.complete(str(request["model"]), messages, toolbox.schemas())
    answer = await attend(harness, flow, asking)
    reach("think.answered")
    if answer is None:
        return Thought(kind="stopped").wire()
    if isinstance(answer, ModelFailure):
        return (await _failed(harness, flow, request, answer)).wire()
    thought = await harness.db.write(_record, harness, flow, request, head, answer)
    harness.notifier.publish(flow.session_key)
    reach("think.committed")
    return thought.wire()


def toolbox_of(harness: Harness, flow: Flow) -> Toolbox:
    """The tools of this turn: none for a tiny model; a sub-agent neither delegates nor talks to the user."""
    if flow.compact:
        return Toolbox()
    return harness.toolbox if flow.delegates else harness.toolbox.without("delegate_task", "ask_user")


async def _look(harness: Harness, flow: Flow, request: Mapping[str, Any]) -> Thought | tuple[int | None, list[Entry]]:
    """Our own record if this step ran before; else the transcript with everything open attached.

    A tool that an older turn still runs is waited for: its result belongs to what the model is shown.
    """
    while True:
        found = await harness.db.write(_try_look, harness, flow, request)
        harness.notifier.publish(flow.session_key)
        if found is not None:
            return found
        await harness.notifier.wait(flow.session_key, WAIT_FOR_OTHER_S)


def _try_look(
    tx: Tx, harness: Harness, flow: Flow, request: Mapping[str, Any]
) -> Thought | tuple[int | None, list[Entry]] | None:
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
    head = attach_open(tx, flow.session_id)
    return head, transcript.load(tx, flow.session_id, head)


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


async def _messages(harness: Harness, flow: Flow, request: Mapping[str, Any], entries: list[Entry]) -> list[Message]:
    notes = [NUDGE] if request["nudge"] else []
    warning = budget_note(request["iteration"], flow.max_iterations)
    if warning and not flow.compact:
        notes.append(warning)
    if request.get("repeats"):
        notes.append(repeat_note(request["repeats"]))
    if flow.compact:
        return build_context(entries[-COMPACT_MESSAGES:], compact_prompt(harness.settings.agent_name), notes=notes)
    today = harness.daily_log.today()
    knowledge = await asyncio.to_thread(harness.workspace.read, today)
    system = system_prompt(knowledge, name=harness.settings.agent_name, today=today, zone=harness.settings.timezone)
    return build_context(entries, system, shrink_level=request["shrink"], notes=notes)


async def _failed(harness: Harness, flow: Flow, request: Mapping[str, Any], failure: ModelFailure) -> Thought:
    until = harness.clock.now() + timedelta(seconds=pause_s(request["waits"], failure.retry_after_s))
    await harness.db.write(turns.wait_until, flow.run_id, until)
    log.info("The model call failed (%s): %s", failure.trouble, failure.message, extra={"run": flow.run_id})
    return Thought(
        kind="failed", trouble=failure.trouble, message=redacted(failure.message)[:300], wait_until=until.isoformat()
    )


def _record(
    tx: Tx, harness: Harness, flow: Flow, request: Mapping[str, Any], head: int | None, answer: Completion
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
    _note_usage(tx, flow, request, answer, now)
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
    if claim is not Claim.HELD:
        return Thought(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    if not answer.text.strip() and not calls:
        return Thought(kind="empty", head=head)
    message_id = transcript.record_assistant(
        tx,
        flow.session_id,
        run_id=flow.run_id,
        step_key=request["key"],
        parent=head,
        text=answer.text,
        new_calls=calls,
        data={"model": request["model"]},
        now=now,
    )
    return _thought(harness, flow, message_id, [(c.step_key, c.name, c.arguments) for c in calls])


def _note_usage(tx: Tx, flow: Flow, request: Mapping[str, Any], answer: Completion, now: datetime) -> None:
    row = {
        "run_id": flow.run_id,
        "step_key": request["key"],
        "session_id": flow.session_id,
        "model": request["model"],
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cost_usd": answer.cost_usd,
        "at": now,
    }
    insert_if_absent(tx, usage, row)
