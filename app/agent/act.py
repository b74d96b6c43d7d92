"""The act step: run one tool call once, and record what came of it as a fact on the call's row."""

import asyncio
import functools
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.agent.announce import announce
from app.agent.approvals.request import hold
from app.agent.artifact import keep_picture, keep_within, limit_bytes
from app.agent.attend import attend
from app.agent.delegation.delegated import ended
from app.agent.delegation.handover import hand_over
from app.agent.delegation.pulse import Pulse, note_tool
from app.agent.delegation.task_list import OpenTasks
from app.agent.delegation.tasks import delegate_apart, send_start
from app.agent.delegation.tracked import OwnLedger, observe_all
from app.agent.flow import Call, Flow, Observation
from app.agent.goals.inspection import looked_over
from app.agent.goals.own_goals import OwnGoals
from app.agent.harness import Harness
from app.agent.heartbeat.learned import OwnLearnings
from app.agent.heartbeat.wakes import OwnWakes
from app.agent.people.undo import keeping_copies
from app.agent.think import toolbox_of
from app.agent.tool import Effect, Tool, ToolContext, ToolResult
from app.db import Tx
from app.errors import BadInput, MoabError
from app.events import SubagentSpawn
from app.failpoints import reach
from app.sessions import branch, calls, session
from app.sessions.calls import CallRecord, CallState
from app.sessions.search import PastConversations
from app.sessions.session import Claim

log = logging.getLogger("moab.agent")

WAIT_FOR_OTHER_S = 1.0
STOPPED_BY_USER = "Stopped by the user before it came to an end."


@dataclass(frozen=True)
class Begun:
    """A call that is ours to run. `limit` is how much its result may take in the transcript, in bytes."""

    record: CallRecord
    tool: Tool
    arguments: dict[str, Any]
    limit: int


async def act(harness: Harness, flow: Flow, call: Mapping[str, Any]) -> dict[str, Any]:
    """An Observation as JSON; `call` is a Call. An unsafe call that was started before is not run again."""
    wanted = Call.model_validate(call)
    begun = await _begin(harness, flow, wanted)
    if isinstance(begun, Observation):
        if wanted.durable:
            await send_start(harness, flow.run_id, wanted.key)
        return begun.wire()
    harness.notifier.publish(flow.session_key)
    reach("tool.started")
    pulse = Pulse()
    result = await attend(harness, flow, _run(harness, flow, begun, pulse), begun.record.id, pulse=pulse)
    reach("tool.done")
    await _finish(harness, flow, begun, result or ToolResult(STOPPED_BY_USER, ok=False))
    harness.notifier.publish(flow.session_key)
    reach("tool.recorded")
    return Observation(kind="done", ok=result is not None and result.ok).wire()


async def _begin(harness: Harness, flow: Flow, wanted: Call) -> Observation | Begun:
    """Our own record if there is one; else the call marked as started, once no other turn's tool runs here."""
    while True:
        begun = await harness.db.write(_try_begin, harness, flow, wanted)
        if begun is not None:
            return begun
        await harness.notifier.wait(flow.session_key, WAIT_FOR_OTHER_S)


def _try_begin(tx: Tx, harness: Harness, flow: Flow, wanted: Call) -> Observation | Begun | None:
    now = harness.clock.now()
    record = calls.find(tx, flow.run_id, wanted.key)
    if flow.replay_of is not None and (record is None or record.boot_id == branch.COPIED):
        record = branch.take_over_call(tx, flow.run_id, flow.replay_of, wanted.key, now)
    if record is None:
        raise MoabError(f"The call {wanted.key} of run {flow.run_id} is not recorded.")
    if record.state in (CallState.FINISHED, CallState.INTERRUPTED):
        return Observation(kind="done", ok=bool(record.ok))
    doing = {"activity": "tool", "tool": record.name}
    claim = session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now, doing=doing)
    if claim is not Claim.HELD:
        return Observation(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    if record.state == CallState.STARTED and record.child_key is not None:
        return _invocation(flow, record, record.child_key)
    if record.state == CallState.STARTED and record.effect == Effect.UNSAFE:
        calls.interrupt(tx, record.id, now)
        return Observation(kind="done", ok=False)
    if calls.running_elsewhere(tx, flow.session_id, flow.run_id, now) is not None:
        return None
    return _start(tx, harness, flow, record, wanted.beside)


def _start(tx: Tx, harness: Harness, flow: Flow, record: CallRecord, beside: int) -> Observation | Begun:
    now = harness.clock.now()
    try:
        tool, arguments = understand(harness, flow, record)
    except BadInput as error:
        calls.finish(tx, record.id, ok=False, result=str(error), now=now)
        return Observation(kind="done", ok=False)
    held = hold(tx, harness, flow, record, tool, arguments)
    if held is not None:
        return held
    apart = delegate_apart(tx, harness, flow, record, arguments) if tool.durable else None
    if apart is not None:
        return apart
    child_key = f"task:{flow.run_id}:{record.step_key}" if tool.durable else None
    calls.start(tx, record.id, harness.boot_id, now, child_key)
    if child_key is not None:
        return _invocation(flow, record, child_key)
    limit = limit_bytes(calls.result_bytes(tx, record) if beside == 1 else 0, beside)
    return Begun(record, tool, arguments, limit)


def understand(harness: Harness, flow: Flow, record: CallRecord) -> tuple[Tool, dict[str, Any]]:
    """The tool and its checked arguments. Raises BadInput with what the model should do instead."""
    tools = toolbox_of(harness, flow).tools
    if record.name not in tools:
        raise BadInput(f"There is no tool {record.name!r}. Available: {', '.join(sorted(tools)) or 'none'}.")
    try:
        parsed = json.loads(record.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{record.name}: the arguments are not valid JSON ({error}). Send one JSON object.") from error
    if not isinstance(parsed, dict):
        raise BadInput(f"{record.name}: the arguments are not a JSON object but {type(parsed).__name__}.")
    tool = tools[record.name]
    return tool, tool.validate(parsed)


def _invocation(flow: Flow, record: CallRecord, child_key: str) -> Observation:
    arguments = json.loads(record.arguments or "{}")
    spawn = SubagentSpawn(
        task_id=child_key,
        task=str(arguments.get("task", "")),
        model=arguments.get("model"),
        sub_session_key=child_key,
        parent_session_key=flow.session_key,
        parent_run_id=flow.run_id,
        parent_step_key=record.step_key,
    )
    return Observation(kind="invoke", invoke=spawn.to_wire("")["data"])


async def _run(harness: Harness, flow: Flow, begun: Begun, pulse: Pulse) -> ToolResult:
    tool = begun.tool
    context = ToolContext(
        workspace=harness.workspace.root,
        session_id=flow.session_id,
        run_id=flow.run_id,
        step_key=begun.record.step_key,
        clock=harness.clock,
        notes=harness.daily_log,
        progress=pulse.beat,
        allow_private_hosts=harness.settings.web_fetch_allow_private,
        channel=flow.channel,
        history=PastConversations(harness.db, flow.session_key),
        tasks=OpenTasks(harness, flow.session_key),
        wakes=OwnWakes(harness, flow),
        learnings=OwnLearnings(harness),
        speech=harness.speech,
        ledger=OwnLedger(harness, flow),
        goals=OwnGoals(harness, flow),
    )
    try:
        async with asyncio.timeout(tool.timeout_s):
            run = functools.partial(tool.run, context, **begun.arguments)
            result = await keeping_copies(harness, flow, tool.name, begun.arguments, run)
            result = await looked_over(harness, tool.name, begun.arguments, result)
    except TimeoutError:
        return ToolResult(f"{tool.name} did not end within {tool.timeout_s:.0f} seconds and was given up.", ok=False)
    except MoabError as error:
        return ToolResult(str(error), ok=False)
    except Exception as error:  # a fault of the tool is told to the model, it must not end the turn
        log.exception("The tool %s failed; the model is told.", tool.name, extra={"run": flow.run_id})
        return ToolResult(f"{tool.name} failed: {type(error).__name__}: {error}"[:500], ok=False)
    return result if isinstance(result, ToolResult) else ToolResult(str(result))


async def _finish(harness: Harness, flow: Flow, begun: Begun, result: ToolResult) -> None:
    text, artifact = await keep_within(harness.workspace, begun.record, result.text, begun.limit)
    if result.picture is not None:
        artifact = await keep_picture(harness.workspace, begun.record, result.picture)
        text = text if artifact else f"{text} It is damaged and cannot be shown."

    def record(tx: Tx) -> list[dict[str, Any]]:
        now = harness.clock.now()
        calls.finish(tx, begun.record.id, ok=result.ok, result=text, now=now, artifact=artifact)
        if result.ok:
            note_tool(tx, harness, flow, begun.record.step_key, begun.tool.name)
        observe_all(tx, harness, flow, begun.record.step_key, result.observed)
        return hand_over(tx, harness, flow, begun.record, result.files) if result.ok and result.files else []

    events = await harness.db.write(record)
    if events:
        await announce(harness, events)


async def observe(harness: Harness, flow: Flow, call: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Record a sub-agent's outcome on the call's row (the child may have done so already); an Observation as JSON."""
    wanted = Call.model_validate(call)
    ok = bool(outcome.get("ok"))
    text = str((outcome.get("value") or {}).get("text") or outcome.get("error") or "The task gave no answer.")

    def record(tx: Tx) -> None:
        call = calls.find(tx, flow.run_id, wanted.key)
        if call is not None:
            calls.finish(tx, call.id, ok=ok, result=text, now=harness.clock.now())
            if call.child_key is not None:
                ended(tx, harness, call.child_key, text, ok)

    await harness.db.write(record)
    return Observation(kind="done", ok=ok).wire()
