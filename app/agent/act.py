"""The act step: run one tool call once, and record what came of it as a fact on the call's row."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from app.agent.artifact import keep_within
from app.agent.attend import attend
from app.agent.flow import Call, Flow, Observation
from app.agent.harness import Harness
from app.agent.think import toolbox_of
from app.agent.tool import Effect, Tool, ToolContext, ToolResult
from app.db import Tx
from app.errors import BadInput, MoabError
from app.events import SubagentSpawn
from app.failpoints import reach
from app.sessions import calls, session, turns
from app.sessions.calls import CallRecord, CallState
from app.sessions.session import Claim

log = logging.getLogger("moab.agent")

WAIT_FOR_OTHER_S = 1.0
STOPPED_BY_USER = "Stopped by the user before it came to an end."


async def act(harness: Harness, flow: Flow, call: Mapping[str, Any]) -> dict[str, Any]:
    """An Observation as JSON; `call` is a Call. An unsafe call that was started before is not run again."""
    wanted = Call.model_validate(call)
    begun = await _begin(harness, flow, wanted)
    if isinstance(begun, Observation):
        return begun.wire()
    record, tool, arguments = begun
    harness.notifier.publish(flow.session_key)
    reach("tool.started")
    result = await attend(harness, flow, _run(harness, flow, record, tool, arguments), record.id)
    reach("tool.done")
    await _finish(harness, record, result or ToolResult(STOPPED_BY_USER, ok=False))
    reach("tool.recorded")
    return Observation(kind="done", ok=result is not None and result.ok).wire()


async def _begin(harness: Harness, flow: Flow, wanted: Call) -> Observation | tuple[CallRecord, Tool, dict[str, Any]]:
    """Our own record if there is one; else the call marked as started, once no other turn's tool runs here."""
    while True:
        async with harness.db.write() as tx:
            begun = await _try_begin(tx, harness, flow, wanted)
        if begun is not None:
            return begun
        await harness.notifier.wait(flow.session_key, WAIT_FOR_OTHER_S)


async def _try_begin(
    tx: Tx, harness: Harness, flow: Flow, wanted: Call
) -> Observation | tuple[CallRecord, Tool, dict[str, Any]] | None:
    now = harness.clock.now()
    record = await calls.find(tx, flow.run_id, wanted.key)
    if record is None:
        raise MoabError(f"The call {wanted.key} of run {flow.run_id} is not recorded.")
    if record.state in (CallState.FINISHED, CallState.INTERRUPTED):
        return Observation(kind="done", ok=bool(record.ok))
    claim = await session.claim(tx, flow.session_id, flow.run_id, boot_id=harness.boot_id, now=now)
    if claim is not Claim.HELD:
        return Observation(kind=claim.value)  # type: ignore[arg-type]  # busy needs steers=False
    if record.state == CallState.STARTED and record.child_key is not None:
        return _invocation(flow, record)
    if record.state == CallState.STARTED and record.effect == Effect.UNSAFE:
        await calls.interrupt(tx, record.id, now)
        return Observation(kind="done", ok=False)
    if await calls.running_elsewhere(tx, flow.session_id, flow.run_id, now) is not None:
        return None
    return await _start(tx, harness, flow, record)


async def _start(
    tx: Tx, harness: Harness, flow: Flow, record: CallRecord
) -> Observation | tuple[CallRecord, Tool, dict[str, Any]]:
    now = harness.clock.now()
    try:
        tool, arguments = understand(harness, flow, record)
    except BadInput as error:
        await calls.finish(tx, record.id, ok=False, result=str(error), now=now)
        return Observation(kind="done", ok=False)
    child_key = f"task:{flow.run_id}:{record.step_key}" if tool.durable else None
    await calls.start(tx, record.id, harness.boot_id, now, child_key)
    await turns.note_activity(tx, flow.run_id, "tool", tool=tool.name)
    if child_key is not None:
        started = await calls.find(tx, flow.run_id, record.step_key)
        return _invocation(flow, started or record)
    return record, tool, arguments


def understand(harness: Harness, flow: Flow, record: CallRecord) -> tuple[Tool, dict[str, Any]]:
    """The tool and its checked arguments. Raises BadInput with what the model should do instead."""
    tools = toolbox_of(harness, flow).tools
    if record.name not in tools:
        raise BadInput(f"There is no tool {record.name!r}. Available: {', '.join(sorted(tools)) or 'none'}.")
    try:
        parsed = json.loads(record.arguments or "{}")
    except ValueError as error:
        raise BadInput(f"{record.name}: the arguments are not valid JSON ({error}). Send one JSON object.") from error
    if not isinstance(parsed, dict):
        raise BadInput(f"{record.name}: the arguments are not a JSON object but {type(parsed).__name__}.")
    tool = tools[record.name]
    return tool, tool.validate(parsed)


def _invocation(flow: Flow, record: CallRecord) -> Observation:
    arguments = json.loads(record.arguments or "{}")
    spawn = SubagentSpawn(
        task_id=record.child_key or "",
        task=str(arguments.get("task", "")),
        model=arguments.get("model"),
        sub_session_key=record.child_key or "",
        parent_session_key=flow.session_key,
        parent_run_id=flow.run_id,
        parent_step_key=record.step_key,
    )
    return Observation(kind="invoke", invoke=spawn.to_wire("")["data"])


async def _run(harness: Harness, flow: Flow, record: CallRecord, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
    context = ToolContext(
        workspace=harness.workspace.root,
        session_id=flow.session_id,
        run_id=flow.run_id,
        step_key=record.step_key,
        clock=harness.clock,
        notes=harness.daily_log,
        allow_private_hosts=harness.settings.web_fetch_allow_private,
    )
    try:
        result = await tool.run(context, **arguments)
    except MoabError as error:
        return ToolResult(str(error), ok=False)
    except Exception as error:  # a fault of the tool is told to the model, it must not end the turn
        log.exception("The tool %s failed; the model is told.", tool.name, extra={"run": flow.run_id})
        return ToolResult(f"{tool.name} failed: {type(error).__name__}: {error}"[:500], ok=False)
    return result if isinstance(result, ToolResult) else ToolResult(str(result))


async def _finish(harness: Harness, record: CallRecord, result: ToolResult) -> None:
    async with harness.db.read() as tx:
        used = await calls.result_bytes(tx, record)
    text, artifact = await keep_within(harness.workspace, record, result.text, used)
    async with harness.db.write() as tx:
        await calls.finish(tx, record.id, ok=result.ok, result=text, now=harness.clock.now(), artifact=artifact)


async def observe(harness: Harness, flow: Flow, call: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Record a sub-agent's outcome on the call's row (the child may have done so already); an Observation as JSON."""
    wanted = Call.model_validate(call)
    async with harness.db.write() as tx:
        record = await calls.find(tx, flow.run_id, wanted.key)
        if record is not None and record.state != CallState.FINISHED:
            text = str((outcome.get("value") or {}).get("text") or outcome.get("error") or "The task gave no answer.")
            ok = bool(outcome.get("ok"))
            await calls.finish(tx, record.id, ok=ok, result=text, now=harness.clock.now())
    return Observation(kind="done", ok=bool(outcome.get("ok"))).wire()
