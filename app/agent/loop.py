"""The agent loop: think, act, observe. A pure composition of steps; everything that touches the world is in them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from app.agent.flow import Ask, Call, Compaction, Ending, Fetching, Flow, Hearing, Observation, Thought
from app.agent.models.llm import Trouble
from app.agent.recovery import EXPLANATIONS, MAX_COMPACTIONS, SUMMARY_TRIES, Trials, next_move
from app.agent.repetition import NOTE_AFTER, STOP_AFTER, STOPPED, of_round
from app.sentences import Sentence

TOO_MANY_STEPS = Sentence("I stopped after {limit} steps without coming to an end. Tell me how to go on.")
TWICE_EMPTY = Sentence("The model gave an empty answer twice. Please ask again, perhaps in other words.")
CRASHED = Sentence("Something went wrong inside me while I worked on this. The log says what; please try again.")
OFFER = Sentence('I was interrupted while working on this and did not go on by myself. Say "go on" if I should.')

Body = Callable[..., Awaitable[Mapping[str, Any]]]


class Steps(Protocol):
    """The durable steps of one run."""

    async def run(self, step_id: str, body: Body, *args: Any) -> Mapping[str, Any]:
        """Run `body` once and remember its answer for every replay.

        A fault of our own code is such an answer too, from its third attempt on: `{"kind": "crashed", "message": …}`.
        """
        ...

    async def parallel(self, wanted: Sequence[tuple[str, Body, Any]]) -> Sequence[Mapping[str, Any]]:
        """Run steps (id, body, argument) at the same time; their answers in order."""
        ...

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        """Sleep durably."""
        ...

    async def wait_for_decision(self, step_id: str, ask: Ask, beside: tuple[str, Body, Any] | None) -> None:
        """Wait durably for a decision on `ask`, at most `ask.wait_s`; a hint only, its row is what counts.

        `beside` is a step that is planned together with the wait, so that nothing it brings about comes before it.
        """
        ...

    async def invoke(self, step_id: str, function_id: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run another function and wait for it: `{"ok": true, "value": …}` or `{"ok": false, "error": …}`."""
        ...


@dataclass(frozen=True)
class Bodies:
    """The bodies of a turn's steps; each looks first for its own record, so that it may run twice.

    `compact(request)` gives a Compaction, `fetch()` a Fetching, `transcribe()` a Hearing.

    `think(request)` gives a Thought, `act(call)` and `observe(call, outcome)` an Observation, `prompt(call)` puts a
    call that waits for a person before that person, `finish(request)` gives an Ending, all as JSON. `speak(request)`
    has an answer read aloud; what came of it steers nothing.
    """

    think: Body
    compact: Body
    fetch: Body
    transcribe: Body
    act: Body
    prompt: Body
    observe: Body
    finish: Body
    speak: Body


@dataclass(frozen=True)
class Progress:
    """Where the turn stands; made only from step results, so a replay counts the same."""

    thoughts: int = 0
    iteration: int = 0
    empty: bool = False
    model: str = ""
    trials: Trials = field(default_factory=Trials)
    last_round: str = ""
    repeats: int = 0
    overflow: bool = False
    compactions: int = 0
    summaries: int = 0
    head: int | None = None

    def request(self) -> dict[str, Any]:
        return {
            "key": f"think#{self.thoughts}",
            "iteration": self.iteration,
            "model": self.model,
            "waits": self.trials.waits,
            "shrink": self.trials.shrinks,
            "nudge": self.empty,
            "repeats": self.repeats if self.repeats + 1 >= NOTE_AFTER else 0,
            "compactions": self.compactions,
            "overflow": self.overflow,
            "blind": self.trials.blind,
            "head": self.head,
        }

    def compaction(self, flow: Flow, attempt: int) -> dict[str, Any]:
        model = (flow.summary_model if attempt == 0 else flow.fallback) or self.model
        return {"key": f"compact#{self.summaries}", "model": model, "attempt": attempt, "head": self.head}

    def after_thought(self, thought: Thought) -> "Progress":
        """An overflow that brought no summary about was met by the first level of shrinking."""
        head = thought.head if thought.head is not None else self.head
        after = replace(self, thoughts=self.thoughts + 1, head=head)
        if not self.overflow or thought.kind == "compact":
            return after
        return replace(after, overflow=False, trials=replace(self.trials, shrinks=max(1, self.trials.shrinks)))

    def after_round(self, calls: Sequence[Call] = ()) -> "Progress":
        this_round = of_round([call.print for call in calls])
        same = bool(calls) and all(call.print for call in calls) and this_round == self.last_round
        return replace(
            self,
            iteration=self.iteration + 1,
            empty=False,
            trials=self.trials.succeeded(),
            last_round=this_round,
            repeats=self.repeats + 1 if same else 0,
            compactions=0,
        )


async def run_turn(steps: Steps, body: Bodies, flow: Flow) -> Ending:
    """Think, act and observe until the model answers, something stops the turn, or its budget is used up.

    A step whose code failed for good ends the turn with a plain sentence.
    """
    progress = Progress(model=flow.model)
    if flow.question:
        return await _finish(steps, body, progress, text=flow.question, state="offered")
    while progress.iteration < flow.max_iterations:
        thought = Thought.model_validate(await steps.run("think", body.think, progress.request()))
        progress = progress.after_thought(thought)
        match thought.kind:
            case "act":
                result = await _act_and_observe(steps, body, thought, progress)
            case "say" | "spent":
                result = await _say(steps, body, thought, progress, flow)
            case "empty" if progress.empty:
                result = await _finish(steps, body, progress, text=TWICE_EMPTY, state="failed")
            case "empty":
                result = replace(progress, empty=True)
            case "compact":
                result = await _compact(steps, body, progress, flow)
            case "fetch":
                result = await _fetch(steps, body, progress)
            case "transcribe":
                result = await _transcribe(steps, body, progress)
            case "failed":
                result = await _recover(steps, body, thought, progress, flow)
            case _:
                result = await _stopped(steps, body, thought.kind, progress)
        if isinstance(result, Ending) and result.kind != "more":
            return result
        progress = result if isinstance(result, Progress) else progress.after_round()
    text = TOO_MANY_STEPS.format(limit=flow.max_iterations)
    return await _finish(steps, body, progress, text=text, state="failed")


async def _say(steps: Steps, body: Bodies, thought: Thought, progress: Progress, flow: Flow) -> Ending:
    ending = await _finish(steps, body, progress, head=thought.head, text=thought.message)
    if flow.speaks and ending.kind == "answered" and thought.head is not None:
        await steps.run("speak", body.speak, {"head": thought.head})
    return ending


async def _act_and_observe(steps: Steps, body: Bodies, thought: Thought, progress: Progress) -> Progress | Ending:
    stopped = await _act_all(steps, body, thought)
    if stopped is not None:
        return await _stopped(steps, body, stopped, progress)
    progress = progress.after_round(thought.calls)
    if progress.repeats + 1 < STOP_AFTER:
        return progress
    names = ", ".join(sorted({call.name for call in thought.calls}))
    return await _finish(steps, body, progress, text=STOPPED.format(names=names), state="failed")


async def _act_all(steps: Steps, body: Bodies, thought: Thought) -> str | None:
    if len(thought.calls) > 1 and thought.calls[0].beside > 1:
        answers = await steps.parallel([(f"tool-{call.name}", body.act, call.wire()) for call in thought.calls])
        pairs = zip(thought.calls, map(Observation.model_validate, answers), strict=True)
        kinds = [(await _decided(steps, body, call, seen)).kind for call, seen in pairs]
        return next((kind for kind in kinds if kind != "done"), None)
    for call in thought.calls:
        observation = await (_delegate(steps, body, call) if call.durable else run_call(steps, body, call))
        if observation.kind != "done":
            return observation.kind
    return None


async def run_call(steps: Steps, body: Bodies, call: Call) -> Observation:
    """One recorded call, and what came of it once whoever has to decide on it has."""
    seen = Observation.model_validate(await steps.run(f"tool-{call.name}", body.act, call.wire()))
    return await _decided(steps, body, call, seen)


async def _decided(steps: Steps, body: Bodies, call: Call, seen: Observation) -> Observation:
    """What came of a call once a person has decided on it; on every wake the act step reads the request's row."""
    while seen.ask is not None:
        beside = ("prompt", body.prompt, call.wire()) if seen.ask.prompt else None
        await steps.wait_for_decision("decision", seen.ask, beside)
        seen = Observation.model_validate(await steps.run(f"tool-{call.name}", body.act, call.wire()))
    return seen


async def _delegate(steps: Steps, body: Bodies, call: Call) -> Observation:
    begun = await run_call(steps, body, call)
    if begun.kind != "invoke" or begun.invoke is None:
        return begun
    outcome = await steps.invoke("delegate", "sub-agent", begun.invoke)
    return Observation.model_validate(await steps.run("observe", body.observe, call.wire(), outcome))


async def _compact(steps: Steps, body: Bodies, progress: Progress, flow: Flow) -> Progress | Ending:
    """Summarise until it helps; the last try asks no model."""
    if progress.compactions >= MAX_COMPACTIONS:  # a think step asks for no more; a turn must end whatever it asks
        return await _finish(steps, body, progress, text=EXPLANATIONS[Trouble.OVERFLOW], state="failed")
    kind = "failed"
    for attempt in range(SUMMARY_TRIES + 1):
        request = progress.compaction(flow, attempt)
        progress = replace(progress, summaries=progress.summaries + 1)
        done = Compaction.model_validate(await steps.run("compact", body.compact, request))
        kind = done.kind
        if kind != "failed":
            break
        if done.wait_until is not None:
            await steps.sleep_until("wait", datetime.fromisoformat(done.wait_until))
    if kind not in ("done", "nothing", "failed"):
        return await _stopped(steps, body, kind, progress)
    return replace(progress, compactions=progress.compactions + 1, overflow=False)


async def _fetch(steps: Steps, body: Bodies, progress: Progress) -> Progress | Ending:
    """Bring the files that came along into the workspace; each is given up after some tries, so this has an end."""
    fetched = Fetching.model_validate(await steps.run("fetch", body.fetch))
    if fetched.wait_until is not None:
        await steps.sleep_until("wait", datetime.fromisoformat(fetched.wait_until))
    if fetched.kind not in ("done", "later"):
        return await _stopped(steps, body, fetched.kind, progress)
    return progress


async def _transcribe(steps: Steps, body: Bodies, progress: Progress) -> Progress | Ending:
    """Put what was spoken into words; where nobody could make out anything, the person is told and no model asked."""
    heard = Hearing.model_validate(await steps.run("transcribe", body.transcribe))
    if heard.kind == "unheard":
        return await _finish(steps, body, progress, text=heard.text, state="offered")
    return progress if heard.kind == "done" else await _stopped(steps, body, heard.kind, progress)


async def _recover(steps: Steps, body: Bodies, thought: Thought, progress: Progress, flow: Flow) -> Progress | Ending:
    if thought.trouble is None:
        return await _finish(steps, body, progress, text=thought.message, state="failed")
    move, trials = next_move(thought.trouble, progress.trials, has_fallback=bool(flow.fallback), saw=thought.saw)
    progress = replace(progress, trials=trials)
    match move:
        case "wait" if thought.wait_until is not None:
            await steps.sleep_until("wait", datetime.fromisoformat(thought.wait_until))
        case "compact":
            progress = replace(progress, overflow=True)
        case "fall_back":
            progress = replace(progress, model=flow.fallback)
        case "shrink" | "close_eyes":
            pass
        case _:
            text = thought.advice or EXPLANATIONS[thought.trouble]
            return await _finish(steps, body, progress, text=text, state="failed")
    return progress


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
