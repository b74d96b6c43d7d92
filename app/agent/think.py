"""The think step: show the model the transcript, record its words and wishes, or return the failure as a value."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import insert

from app.agent.attend import attend
from app.agent.context import NUDGE, budget_note, build_context
from app.agent.flow import Call, Flow, Thought
from app.agent.harness import Harness
from app.agent.llm import Completion, ModelFailure
from app.agent.prompts import compact_prompt, system_prompt
from app.agent.pruning import Message
from app.agent.recovery import pause_s
from app.agent.tool import Effect, Toolbox
from app.db import Tx
from app.failpoints import reach
from app.sessions import session, transcript, turns
from app.sessions.deposit import attach_open
from app.sessions.session import Claim
from app.sessions.transcript import Entry, NewCall
from app.tables import usage

log = logging.getLogger("moab.agent")

COMPACT_MESSAGES = 8
"""How many messages a tiny model is shown."""


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
    thought = await _record(harness, flow, request, head, answer, toolbox)
    harness.notifier.publish(flow.session_key)
    reach("think.committed")
    return thought.wire()


def toolbox_of(harness: Harness, flow: Flow) -> Toolbox:
    """The tools of this turn: none for a tiny model, no delegation for a sub-agent."""
    if flow.compact:
        return Toolbox()
    return harness.toolbox if flow.delegates else harness.toolbox.without("delegate_task")


async def _look(harness: Harness, flow: Flow, request: Mapping[str, Any]) -> Thought | tuple[int | None, list[Entry]]:
    """Our own record if this step ran before; else the transcript with everything open attached."""
    async with harness.db.write() as tx:
        recorded = await transcript.find_step(tx, flow.run_id, request["key"])
        if recorded is not None:
            return await _recorded(tx, harness, flow, recorded)
        claim = await session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=harness.clock.now())
        if claim is not Claim.HELD:
            return Thought(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
        head = await attach_open(tx, flow.session_id)
        await turns.note_activity(tx, flow.run_id, "thinking", iteration=request["iteration"])
        entries = await transcript.load(tx, flow.session_id, head)
    harness.notifier.publish(flow.session_key)
    return head, entries


async def _recorded(tx: Tx, harness: Harness, flow: Flow, message_id: int) -> Thought:
    planned = await transcript.planned_calls(tx, message_id)
    return _thought(harness, flow, message_id, planned)


def _thought(harness: Harness, flow: Flow, head: int, planned: list[tuple[str, str]]) -> Thought:
    if not planned:
        return Thought(kind="say", head=head)
    tools = toolbox_of(harness, flow).tools
    calls = tuple(Call(key=k, name=n, durable=n in tools and tools[n].durable) for k, n in planned)
    return Thought(kind="act", head=head, calls=calls)


async def _messages(harness: Harness, flow: Flow, request: Mapping[str, Any], entries: list[Entry]) -> list[Message]:
    notes = [NUDGE] if request["nudge"] else []
    warning = budget_note(request["iteration"], flow.max_iterations)
    if warning and not flow.compact:
        notes.append(warning)
    if flow.compact:
        return build_context(entries[-COMPACT_MESSAGES:], compact_prompt(harness.settings.agent_name), notes=notes)
    today = harness.daily_log.today()
    knowledge = await asyncio.to_thread(harness.workspace.read, today)
    system = system_prompt(knowledge, name=harness.settings.agent_name, today=today, zone=harness.settings.timezone)
    return build_context(entries, system, shrink_level=request["shrink"], notes=notes)


async def _failed(harness: Harness, flow: Flow, request: Mapping[str, Any], failure: ModelFailure) -> Thought:
    until = harness.clock.now() + timedelta(seconds=pause_s(request["waits"], failure.retry_after_s))
    async with harness.db.write() as tx:
        await turns.wait_until(tx, flow.run_id, until)
    log.info("The model call failed (%s): %s", failure.trouble, failure.message, extra={"run": flow.run_id})
    return Thought(kind="failed", trouble=failure.trouble, message=failure.message[:300], wait_until=until.isoformat())


async def _record(
    harness: Harness, flow: Flow, request: Mapping[str, Any], head: int | None, answer: Completion, toolbox: Toolbox
) -> Thought:
    now = harness.clock.now()
    number = str(request["key"]).partition("#")[2]
    calls = [
        NewCall(
            step_key=f"tool#{number}.{i}",
            provider_id=wish.id,
            name=wish.name,
            arguments=wish.arguments,
            effect=toolbox.tools[wish.name].effect if wish.name in toolbox.tools else Effect.READ,
        )
        for i, wish in enumerate(answer.wishes)
    ]
    async with harness.db.write() as tx:
        await _note_usage(tx, flow, request, answer, now)
        claim = await session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
        if claim is not Claim.HELD:
            return Thought(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
        if not answer.text.strip() and not calls:
            return Thought(kind="empty", head=head)
        message_id = await transcript.record_assistant(
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
    return _thought(harness, flow, message_id, [(c.step_key, c.name) for c in calls])


async def _note_usage(tx: Tx, flow: Flow, request: Mapping[str, Any], answer: Completion, now: Any) -> None:
    found = await tx.scalar(
        usage.select().where(usage.c.run_id == flow.run_id, usage.c.step_key == request["key"]).limit(1)
    )
    if found is None:
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
        await tx.execute(insert(usage).values(row))
