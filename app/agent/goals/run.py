"""One try of a step as a run: taken, worked at, ended. A pure composition of steps, like the loop of a turn."""

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.agent.flow import Call, Flow
from app.agent.goals import model as goal_model
from app.agent.goals import step as goal_step
from app.agent.goals import work as goal_work
from app.agent.goals.parts import MAX_ROUNDS, Cut
from app.agent.goals.step import Task, Worked
from app.agent.harness import Harness
from app.agent.loop import Steps, run_call, run_turn
from app.agent.turn import bodies_of
from app.events import SubagentSpawn
from app.sentences import Sentence
from app.work.pipeline import Action

MISSHAPEN = Sentence("the model's answer does not have the form asked for: {reason}")
MAX_ASKS = 4
"""How many questions one try may put to models: an answer of the wrong form is asked for again, another model may."""


async def run_try(steps: Steps, harness: Harness, run_id: str, spawn: SubagentSpawn) -> Mapping[str, Any]:
    """From the claim of a try to what came of it; nothing if another run has it or its goal has ended."""
    begun = await steps.run("begin", goal_step.begin, harness, run_id, spawn)
    if begun.get("kind") == "crashed":  # nobody knows whether the try is ours; the heartbeat finds it
        return begun
    task = Task.model_validate(begun)
    if task.gone:
        return {"kind": "superseded"}
    match task.action:
        case Action.LLM | Action.CHECK:
            worked = await _ask(steps, harness, task)
        case Action.EXEC:
            worked = await _command(steps, harness, task)
        case Action.AGENT:
            worked = await _agent(steps, harness, task)
        case _:
            worked = _value(await steps.run(f"{task.action}", goal_work.work, harness, task))
    return await steps.run("end", goal_step.end, harness, task, worked)


def _value(answer: Mapping[str, Any]) -> Worked:
    """What a step came to; a fault of our own code is a failure like others."""
    if answer.get("kind") == "crashed":
        return Worked.failed(str(answer.get("message")))
    return Worked.model_validate(answer)


async def _ask(steps: Steps, harness: Harness, task: Task) -> Worked:
    """The question of a step. Where its text is too long for the model each part is asked about, then what came of
    all of them.
    """
    cut = Cut()
    worked = await _question(steps, harness, task, cut)
    while worked.kind == "long" and len(cut.sizes) < MAX_ROUNDS:
        cut = Cut(sizes=(*cut.sizes, worked.size))
        for place in range(worked.parts):
            part = await _question(steps, harness, task, cut.model_copy(update={"place": place}))
            if part.kind != "done":
                return part
        worked = await _question(steps, harness, task, cut)
    if worked.kind == "long":
        return Worked.failed(Sentence("the text is too long for the model, also in parts"), hopeless=True)
    return worked


async def _question(steps: Steps, harness: Harness, task: Task, cut: Cut) -> Worked:
    """The model, and the fallback if it gives no answer; an answer of the wrong form is asked for once more."""
    model, fault, worked = task.flow.model, "", Worked.failed(Sentence("no model was asked"))
    for number in range(MAX_ASKS):
        request = {"key": f"think#{number}", "model": model, "fault": fault, "cut": cut.wire()}
        worked = _value(await steps.run(f"{task.action}", goal_model.ask, harness, task, request))
        if worked.kind == "refused" and task.flow.fallback and model != task.flow.fallback:
            model = task.flow.fallback
        elif worked.kind == "malformed" and not fault:
            fault = worked.reason
        else:
            break
    if worked.kind == "malformed":
        return Worked.failed(MISSHAPEN.format(reason=worked.reason))
    return worked


async def _command(steps: Steps, harness: Harness, task: Task) -> Worked:
    """The command as a call of a turn, with all that holds for calls: the policy, approvals, run once."""
    planned = await steps.run("plan", goal_work.plan_command, harness, task)
    if planned.get("kind") != "call":
        return _value(planned)
    await run_call(steps, bodies_of(harness, task.flow), Call.model_validate(planned["call"]))
    return _value(await steps.run("output", goal_work.take_output, harness, task))


async def _agent(steps: Steps, harness: Harness, task: Task) -> Worked:
    received = await steps.run("receive", goal_work.receive_task, harness, task)
    if received.get("kind") == "crashed":
        return _value(received)
    flow = Flow.model_validate(received)
    if flow.stop is not None:
        return Worked(kind="stopped")
    bodies = bodies_of(harness, flow)
    bodies = replace(bodies, think=functools.partial(goal_work.think_in_time, harness, task, bodies.think))
    ending = await run_turn(steps, bodies, flow)
    return _value(await steps.run("answer", goal_work.keep_answer, harness, task, ending.wire()))
