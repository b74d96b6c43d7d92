"""The work of a try that asks no model: files, recordings, notices, commands. Safe to repeat."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from app.agent.announce import announce
from app.agent.attend import attend
from app.agent.flow import Call, Flow, Thought
from app.agent.goals.end import tell_goal
from app.agent.goals.step import Task, Worked, at_work, desk_of, note_progress
from app.agent.harness import Harness
from app.agent.receive import receive
from app.agent.tool import Effect
from app.db import Tx
from app.errors import BadInput, ConfigError, MoabError, NotFound, OutsideWorkspace
from app.events import Destination, MessageReceived
from app.failpoints import reach
from app.sentences import Sentence
from app.sessions import calls, transcript, usage
from app.sessions.calls import CallRecord, CallState
from app.sessions.transcript import NewCall
from app.work import actions
from app.work.desk import Desk
from app.work.goals import Goal
from app.work.pipeline import Action, Step
from app.work.standing import Product

MAX_COMMAND_S = 600
CALL = "tool#0.0"
THOUGHT = "think#0"
NOBODY_SPEAKS = Sentence("nobody speaks in this recording")
TOO_SLOW = Sentence("it did not get on within {seconds} seconds")

GotOn = Callable[[str], Awaitable[None]]
"""Awaited with a line about it when a work got on: its time limit begins anew."""

Work = Callable[[Harness, Task, Step, Desk, GotOn], Awaitable[Product]]


async def work(harness: Harness, task: Task) -> dict[str, Any]:
    """Worked as JSON: the action of the try, which may not be idle longer than its time limit. What went wrong is a
    value.
    """
    found = await harness.db.read(at_work, task.task_id)
    if found is None:
        return Worked(kind="stopped").wire()
    _, step, stands = found
    body = _within(harness, task, step, desk_of(harness, stands))
    product = await attend(harness, task.flow, _as_value(body))
    reach("goal.made")
    return (product or Worked(kind="stopped")).wire()


async def _within(harness: Harness, task: Task, step: Step, desk: Desk) -> Product:
    try:
        async with asyncio.timeout(step.timeout) as limit:

            async def got_on(line: str) -> None:
                limit.reschedule(asyncio.get_running_loop().time() + step.timeout)
                await harness.db.write(note_progress, harness, task.task_id, line)

            return await BODIES[step.action](harness, task, step, desk, got_on)
    except TimeoutError as error:
        raise MoabError(TOO_SLOW.format(seconds=step.timeout)) from error


async def _as_value(body: Awaitable[Product]) -> Worked:
    try:
        product = await body
    except (BadInput, ConfigError, NotFound, OutsideWorkspace) as error:  # the same again would give the same
        return Worked.failed(str(error), hopeless=True)
    except (MoabError, OSError) as error:
        return Worked.failed(str(error))
    return Worked(kind="done", product=product.path, summary=product.summary)


async def _on_files(harness: Harness, task: Task, step: Step, desk: Desk, _got_on: GotOn) -> Product:
    if step.action in (Action.WRITE, Action.EDIT) and task.flow.policy.decide(step.action, harmless=True) != "allow":
        raise BadInput(f"the policy does not allow {step.action} in pipelines ([machine] in policy.toml)")
    return await asyncio.to_thread(actions.BY_NAME[step.action], desk, step)


async def _transcribe(harness: Harness, task: Task, step: Step, desk: Desk, got_on: GotOn) -> Product:
    path = desk.readable(desk.filled(step.input[0]))
    if not await asyncio.to_thread(path.is_file):
        raise NotFound(Sentence("{path}: the recording is not there any more").format(path=path))

    async def progress(done_s: float, of_s: float | None) -> None:
        await got_on(f"{done_s / 60:.0f} of {of_s / 60:.0f} min heard" if of_s else f"{done_s / 60:.0f} min heard")

    heard = await harness.speech.transcribe(path, progress=progress)
    if not heard.text.strip():
        raise BadInput(NOBODY_SPEAKS)
    output = desk.filled(step.output) or desk.own_path(f"{step.id}.txt")
    made = await asyncio.to_thread(desk.put, output, heard.text.strip() + "\n")
    return Product(made, f"{heard.seconds:.0f} s of {heard.language or 'speech'}, confidence {heard.confidence:.2f}")


async def _notify(harness: Harness, task: Task, step: Step, desk: Desk, _got_on: GotOn) -> Product:
    text = (await asyncio.to_thread(desk.filled, step.content)).strip()
    goal: Goal = desk.goal
    events = await harness.db.write(tell_goal, harness, goal, f"goal/{goal.id}/{step.id}", text)
    if events:
        await announce(harness, events)
    return Product("", text)


Think = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]

BODIES: dict[Action, Work] = {
    Action.WRITE: _on_files,
    Action.EDIT: _on_files,
    Action.INDEX: _on_files,
    Action.CLEANUP: _on_files,
    Action.TRANSCRIBE: _transcribe,
    Action.NOTIFY: _notify,
}


async def plan_command(harness: Harness, task: Task) -> dict[str, Any]:
    """The command of an exec step as a planned call of its turn: `{"kind": "call", "call": …}`, or Worked if there is
    nothing to run.
    """
    found = await harness.db.read(at_work, task.task_id)
    if found is None:
        return Worked(kind="stopped").wire()
    _, step, stands = found
    try:
        command = await asyncio.to_thread(desk_of(harness, stands).command, step.command)
    except MoabError as error:
        return Worked.failed(str(error), hopeless=True).wire()
    arguments = {"command": command, "timeout_s": min(step.timeout, MAX_COMMAND_S)}
    await harness.db.write(_plan, harness, task, json.dumps(arguments))
    return {"kind": "call", "call": Call(key=CALL, name="bash").wire()}


def _plan(tx: Tx, harness: Harness, task: Task, arguments: str) -> None:
    if transcript.find_step(tx, task.flow.run_id, THOUGHT) is None:
        transcript.record_assistant(
            tx,
            task.flow.session_id,
            run_id=task.flow.run_id,
            step_key=THOUGHT,
            parent=None,
            text="",
            new_calls=[NewCall(CALL, "exec", "bash", arguments, Effect.UNSAFE)],
            data={},
            now=harness.clock.now(),
        )


async def take_output(harness: Harness, task: Task) -> dict[str, Any]:
    """Worked as JSON: what the command of the turn came to.

    One that was not allowed, or that may have run without anybody seeing its end, is not tried again by itself.
    """
    record = await harness.db.read(calls.find, task.flow.run_id, CALL)
    found = await harness.db.read(at_work, task.task_id)
    if record is None or found is None:
        return Worked(kind="stopped").wire()
    _, step, stands = found
    if not record.ok:
        was_not_seen = record.state == CallState.INTERRUPTED or record.boot_id is None
        return Worked.failed(record.result or Sentence("it came to nothing"), hopeless=was_not_seen).wire()
    desk = desk_of(harness, stands)
    printed = await asyncio.to_thread(_printed, desk, record)
    return (await _as_value(_keep(desk, step, printed))).wire()


def _printed(desk: Desk, record: CallRecord) -> str:
    """The whole output of a command, without the line that says how it ended."""
    text = desk.text_of(record.artifact) if record.artifact else record.result or ""
    return text.rpartition("\n[")[0]


async def _keep(desk: Desk, step: Step, text: str) -> Product:
    output = desk.filled(step.output) or desk.own_path(f"{step.id}.txt")
    return Product(await asyncio.to_thread(desk.put, output, text + "\n"))


async def receive_task(harness: Harness, task: Task) -> dict[str, Any]:
    """A sub-agent's Flow as JSON: the task of an agent step as its first message."""
    found = await harness.db.read(at_work, task.task_id)
    if found is None:
        return task.flow.model_copy(update={"stop": "stopped"}).wire()
    _, step, stands = found
    message = MessageReceived(
        message=await asyncio.to_thread(desk_of(harness, stands).filled, step.content),
        message_key=task.task_id,
        session_key=task.flow.session_key,
        channel="task",
        destination=Destination(chat_id=task.task_id),
        origin="task",
    )
    flow = Flow.model_validate(await receive(harness, task.flow.run_id, message, task.task_id, False))
    return flow.model_copy(update={"model": task.flow.model}).wire()


async def think_in_time(harness: Harness, task: Task, think: Think, request: Mapping[str, Any]) -> dict[str, Any]:
    """A Thought as JSON: a thought of an agent step, which ends the turn if it takes longer than the step may be idle.

    The whole may take longer: each thought is progress, and so is a tool's call, which has a limit of its own.
    """
    found = await harness.db.read(at_work, task.task_id)
    if found is None:
        return Thought(kind="stopped").wire()
    try:
        async with asyncio.timeout(found[1].timeout):
            answer = dict(await think(request))
    except TimeoutError:
        await harness.db.write(usage.release, task.flow.run_id, str(request["key"]))
        return Thought(kind="stopped").wire()
    await harness.db.write(note_progress, harness, task.task_id, "the agent has thought")
    return answer


async def keep_answer(harness: Harness, task: Task, ending: Mapping[str, Any]) -> dict[str, Any]:
    """Worked as JSON: a sub-agent's answer as the product of its step."""
    found = await harness.db.read(at_work, task.task_id)
    if found is None or ending["kind"] == "superseded":
        return Worked(kind="stopped").wire()
    _, step, stands = found
    if ending["kind"] == "stopped":  # by nobody, or its goal would have ended; what it has done is not done again
        return Worked.failed(TOO_SLOW.format(seconds=step.timeout), hopeless=True).wire()
    if ending["kind"] != "answered":
        return Worked.failed(str(ending.get("text") or Sentence("it came to no answer"))).wire()
    return (await _as_value(_keep(desk_of(harness, stands), step, str(ending["text"])))).wire()
