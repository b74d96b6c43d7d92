"""The agent loop: think, act, observe. A pure composition of steps; everything that touches the world is in them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from app.agent.flow import Call, Ending, Flow, Observation, Thought
from app.agent.recovery import EXPLANATIONS, Trials, next_move

TOO_MANY_STEPS = "I stopped after {limit} steps without coming to an end. Tell me how to go on."
TWICE_EMPTY = "The model gave an empty answer twice. Please ask again, perhaps in other words."
CRASHED = "Something went wrong inside me while I worked on this. The log says what; please try again."
OFFER = 'I was interrupted while working on this and did not go on by myself. Say "go on" if I should.'

Body = Callable[..., Awaitable[Mapping[str, Any]]]


class Steps(Protocol):
    """The durable steps of one run."""

    async def run(self, step_id: str, body: Body, *args: Any) -> Mapping[str, Any]:
        """Run `body` once and remember its answer for every replay.

        A fault of our own code is such an answer too, from its third attempt on: `{"kind": "crashed", "message": …}`.
        """
        ...

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        """Sleep durably."""
        ...

    async def invoke(self, step_id: str, function_id: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run another function and wait for it: `{"ok": true, "value": …}` or `{"ok": false, "error": …}`."""
        ...


@dataclass(frozen=True)
class Bodies:
    """The bodies of a turn's steps; each looks first for its own record, so that it may run twice.

    `think(request)` gives a Thought, `act(call)` and `observe(call, outcome)` an Observation, `finish(request)` an
    Ending, all as JSON.
    """

    think: Body
    act: Body
    observe: Body
    finish: Body


@dataclass(frozen=True)
class Progress:
    """Where the turn stands; made only from step results, so a replay counts the same."""

    thoughts: int = 0
    iteration: int = 0
    empty: bool = False
    model: str = ""
    trials: Trials = field(default_factory=Trials)

    def request(self) -> dict[str, Any]:
        return {
            "key": f"think#{self.thoughts}",
            "iteration": self.iteration,
            "model": self.model,
            "waits": self.trials.waits,
            "shrink": self.trials.shrinks,
            "nudge": self.empty,
        }

    def after_thought(self) -> "Progress":
        return replace(self, thoughts=self.thoughts + 1)

    def after_round(self) -> "Progress":
        return replace(self, iteration=self.iteration + 1, empty=False, trials=self.trials.succeeded())


async def run_turn(steps: Steps, body: Bodies, flow: Flow) -> Ending:
    """Think, act and observe until the model answers, something stops the turn, or its budget is used up.

    A step whose code failed for good ends the turn with a plain sentence.
    """
    progress = Progress(model=flow.model)
    while progress.iteration < flow.max_iterations:
        thought = Thought.model_validate(await steps.run("think", body.think, progress.request()))
        progress = progress.after_thought()
        match thought.kind:
            case "act":
                stopped = await _act_all(steps, body, thought)
                if stopped is not None:
                    return await _stopped(steps, body, stopped, progress)
                progress = progress.after_round()
            case "say":
                ending = await _finish(steps, body, progress, head=thought.head)
                if ending.kind != "more":
                    return ending
                progress = progress.after_round()
            case "empty" if progress.empty:
                return await _finish(steps, body, progress, text=TWICE_EMPTY, state="failed")
            case "empty":
                progress = replace(progress, empty=True)
            case "failed":
                recovered = await _recover(steps, thought, progress, flow)
                if recovered is None:
                    return await _finish(steps, body, progress, text=_explain(thought), state="failed")
                progress = recovered
            case "crashed":
                return await _finish(steps, body, progress, text=CRASHED, state="failed")
            case _:
                return await _stopped(steps, body, thought.kind, progress)
    text = TOO_MANY_STEPS.format(limit=flow.max_iterations)
    return await _finish(steps, body, progress, text=text, state="failed")


async def _act_all(steps: Steps, body: Bodies, thought: Thought) -> str | None:
    for call in thought.calls:
        observation = await (_delegate(steps, body, call) if call.durable else _act(steps, body, call))
        if observation.kind != "done":
            return observation.kind
    return None


async def _act(steps: Steps, body: Bodies, call: Call) -> Observation:
    return Observation.model_validate(await steps.run(f"tool-{call.name}", body.act, call.wire()))


async def _delegate(steps: Steps, body: Bodies, call: Call) -> Observation:
    begun = await _act(steps, body, call)
    if begun.kind != "invoke" or begun.invoke is None:
        return begun
    outcome = await steps.invoke("delegate", "sub-agent", begun.invoke)
    return Observation.model_validate(await steps.run("observe", body.observe, call.wire(), outcome))


async def _recover(steps: Steps, thought: Thought, progress: Progress, flow: Flow) -> Progress | None:
    if thought.trouble is None:
        return None
    move, trials = next_move(thought.trouble, progress.trials, has_fallback=bool(flow.fallback))
    progress = replace(progress, trials=trials)
    if move == "wait" and thought.wait_until is not None:
        await steps.sleep_until("wait", datetime.fromisoformat(thought.wait_until))
        return progress
    if move == "fall_back":
        return replace(progress, model=flow.fallback)
    return progress if move == "shrink" else None


def _explain(thought: Thought) -> str:
    return EXPLANATIONS[thought.trouble] if thought.trouble else thought.message


async def _stopped(steps: Steps, body: Bodies, kind: str, progress: Progress) -> Ending:
    if kind == "stale":
        return await _finish(steps, body, progress, text=OFFER, state="offered")
    if kind == "crashed":
        return await _finish(steps, body, progress, text=CRASHED, state="failed")
    return Ending(kind="stopped" if kind == "stopped" else "superseded")


async def _finish(
    steps: Steps,
    body: Bodies,
    progress: Progress,
    *,
    head: int | None = None,
    text: str = "",
    state: str = "finished",
) -> Ending:
    request = {"key": f"finish#{progress.thoughts}", "head": head, "text": text, "state": state}
    return Ending.model_validate(await steps.run("finish", body.finish, request))
