"""A pipeline: what a file in pipelines/ says. Pure; every fault is a sentence that names file, step and field."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from app.errors import BadInput
from app.work.placeholders import ENTRY, FACTS, names_in
from app.work.yaml_file import load

FOLDER = "pipelines"
MAX_STEPS = 50
MAX_RETRIES = 3
LONGEST_S = 24 * 3600
DURATION = "seconds, or a time such as 90s, 10m or 2h, up to 24h"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_UNITS = {"s": 1, "m": 60, "h": 3600}


class Action(StrEnum):
    """What a step can do."""

    TRANSCRIBE = "transcribe"
    LLM = "llm"
    WRITE = "write"
    EDIT = "edit"
    EXEC = "exec"
    INDEX = "index"
    CLEANUP = "cleanup"
    NOTIFY = "notify"
    CHECK = "check"
    AGENT = "agent"


ASKING = (Action.EXEC, Action.AGENT)
"""Actions that may ask a person and run commands."""


def seconds(value: Any) -> Any:
    """`90s`, `10m`, `2h` or a number of seconds. Raises ValueError with the accepted form."""
    found = re.fullmatch(r"(\d{1,6})\s*([smh]?)", str(value).strip()) if not isinstance(value, bool) else None
    if found is None or not 0 < int(found[1]) * _UNITS.get(found[2], 1) <= LONGEST_S:
        raise ValueError(f"{value!r} is no length of time; accepted: {DURATION}")
    return int(found[1]) * _UNITS.get(found[2], 1)


def _several(value: Any) -> Any:
    """One text, or a list of them."""
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[Annotated[str, Field(max_length=20_000)], ...], BeforeValidator(_several)]
Text = Annotated[str, Field(max_length=20_000)]


class Step(BaseModel):
    """One step as its file says it. Which fields an action takes is in TAKES; `timeout` is in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    action: Action
    tool: Text = ""
    max_retries: Annotated[int, Field(ge=0, le=MAX_RETRIES, strict=True)] = MAX_RETRIES
    timeout: Annotated[int, BeforeValidator(seconds)] = 600
    needs: Texts = ()
    input: Texts = ()
    output: Text = ""
    prompt: Text = ""
    answer: Literal["text", "topics"] = "text"
    content: Text = ""
    place: Literal["workspace", "delivery"] = "workspace"
    old: Text = ""
    each: Text = ""
    command: Text = ""
    criteria: Texts = ()
    against: Texts = ()
    redo: Text = ""
    requires: Texts = ()

    def templated(self) -> Iterator[tuple[str, str]]:
        """(field, text) of every text that may have placeholders."""
        for name in ("output", "content", "old", "command"):
            yield name, getattr(self, name)
        for name in ("input", "against", "requires"):
            for text in getattr(self, name):
                yield name, text

    def needs_source(self) -> bool:
        return any(name in ("source", "text.source") for _, text in self.templated() for name in names_in(text))


class Pipeline(BaseModel):
    """A whole pipeline; its name is its file's. `accepts` are endings of source files, all if there are none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: Text = ""
    accepts: Texts = ()
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS)]

    def step(self, step_id: str) -> Step:
        return next(step for step in self.steps if step.id == step_id)

    @property
    def needs_model(self) -> bool:
        """Whether a step of it asks the model that is set for everything."""
        return any(step.action in MODELLED and not step.tool for step in self.steps)

    @property
    def needs_source(self) -> bool:
        """Whether a goal of it begins with a file."""
        return bool(self.accepts) or any(step.needs_source() for step in self.steps)


COMMON = {"id", "action", "tool", "max_retries", "timeout", "needs"}
TAKES: Mapping[Action, tuple[frozenset[str], frozenset[str]]] = {
    Action.TRANSCRIBE: (frozenset({"input"}), frozenset({"output"})),
    Action.LLM: (frozenset({"prompt", "input"}), frozenset({"output", "answer"})),
    Action.WRITE: (frozenset({"output", "content"}), frozenset({"place"})),
    Action.EDIT: (frozenset({"output", "content"}), frozenset({"old", "each"})),
    Action.EXEC: (frozenset({"command"}), frozenset({"output"})),
    Action.INDEX: (frozenset({"input", "output"}), frozenset()),
    Action.CLEANUP: (frozenset({"input", "requires"}), frozenset()),
    Action.NOTIFY: (frozenset({"content"}), frozenset()),
    Action.CHECK: (frozenset({"input", "criteria"}), frozenset({"against", "redo"})),
    Action.AGENT: (frozenset({"content"}), frozenset({"output"})),
}
"""The fields that an action must have, and those that it may have, besides COMMON."""

TOOLS: Mapping[Action, str] = {
    Action.TRANSCRIBE: "faster-whisper",
    Action.WRITE: "write",
    Action.EDIT: "edit",
    Action.EXEC: "bash",
}
"""What does the work of an action; `tool` may say it again. For llm, check and agent `tool` is a model."""

REPEATABLE = frozenset({Action.LLM, Action.WRITE, Action.EDIT, Action.INDEX, Action.CHECK, Action.TRANSCRIBE})
"""Actions that may be done again with nothing but a better product coming of it."""

MODELLED = frozenset({Action.LLM, Action.CHECK, Action.AGENT})


def parse(name: str, text: str) -> Pipeline:
    """The pipeline of the file `name`.yaml. Raises BadInput with a line for each fault."""
    where = f"{FOLDER}/{name}.yaml"
    if not _NAME.fullmatch(name):
        raise BadInput(f"{where}: the file's name is no name; accepted: small letters, digits and _, up to 40")
    data = _mapping(where, text)
    faults = list(_shape_faults(where, data)) or list(_step_faults(where, data))
    if faults:
        raise BadInput("\n".join(faults))
    try:
        pipeline = Pipeline.model_validate(dict(data) | {"name": name})
    except ValidationError as error:
        raise BadInput("\n".join(_sentence(where, data, fault) for fault in error.errors())) from error
    faults = list(_faults(where, pipeline))
    if faults:
        raise BadInput("\n".join(faults))
    return pipeline


def _mapping(where: str, text: str) -> dict[str, Any]:
    data = load(where, text)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInput(f"{where}: accepted is a mapping with description, accepts and steps")
    return data


def _shape_faults(where: str, data: Mapping[str, Any]) -> Iterator[str]:
    steps = data.get("steps")
    if not isinstance(steps, list) or not steps:
        yield f"{where}: steps: accepted is a list of steps, each with id and action"
        return
    for place, step in enumerate(steps, 1):
        if not isinstance(step, dict) or not all(isinstance(key, str) for key in step):
            yield f"{where}: step {place}: accepted is a mapping with id, action and what the action needs"


def _step_faults(where: str, data: Mapping[str, Any]) -> Iterator[str]:
    """Faults that the types alone would tell badly: names, unknown actions, fields that an action does not take."""
    seen: set[str] = set()
    for place, step in enumerate(data["steps"], 1):
        name = step.get("id")
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (*FACTS, *ENTRY, "text"):
            reserved = ", ".join((*FACTS, *ENTRY, "text"))
            form = f"small letters, digits and _, up to 40, but none of {reserved}"
            yield f"{where}: step {place}: id: {name!r} is no name for a step; accepted: {form}"
            continue
        if name in seen:
            yield f"{where}: step {name}: id: two steps have this name"
        seen.add(name)
        action = step.get("action")
        if not isinstance(action, str) or action not in list(Action):
            yield f"{where}: step {name}: action: there is no action {action!r}; accepted: {', '.join(Action)}"
            continue
        needed, possible = TAKES[Action(action)]
        for field in sorted(needed - {key for key, value in step.items() if value not in (None, "", [])}):
            yield f"{where}: step {name}: {field}: is missing; {action} needs {', '.join(sorted(needed))}"
        for field in sorted(set(step) - COMMON - needed - possible):
            accepted = ", ".join(sorted(COMMON | needed | possible))
            yield f"{where}: step {name}: {field}: {action} does not take it; accepted: {accepted}"


def _sentence(where: str, data: Mapping[str, Any], fault: Any) -> str:
    match list(fault["loc"]):
        case ["steps", int(place), str(field), *_]:
            spot = f"step {data['steps'][place]['id']}: {field}"
        case [str(field), *_]:
            spot = field
        case _:
            spot = "the file"
    message = "there is no such field" if fault["type"] == "extra_forbidden" else fault["msg"]
    return f"{where}: {spot}: {message.removeprefix('Value error, ')}"


def _faults(where: str, pipeline: Pipeline) -> Iterator[str]:
    """What only the whole shows: unknown needs, circles, tools, placeholders without a meaning."""
    order = list(_order_faults(pipeline))
    if order:
        yield from (f"{where}: {fault}" for fault in order)
        return
    for step in pipeline.steps:
        yield from (f"{where}: step {step.id}: {fault}" for fault in _fits(pipeline, step))


def _order_faults(pipeline: Pipeline) -> Iterator[str]:
    names = [step.id for step in pipeline.steps]
    for step in pipeline.steps:
        for need in step.needs:
            if need not in names:
                yield f"step {step.id}: needs: there is no step {need!r}; accepted: {', '.join(names)}"
            elif need == step.id:
                yield f"step {step.id}: needs: a step cannot wait for itself"
    circle = find_circle({step.id: [need for need in step.needs if need != step.id] for step in pipeline.steps})
    if circle:
        yield f"step {circle[0]}: needs: the steps wait for one another in a circle: {' -> '.join(circle)}"


def _fits(pipeline: Pipeline, step: Step) -> Iterator[str]:
    wanted = TOOLS.get(step.action)
    if step.tool and step.action not in MODELLED and step.tool != wanted:
        form = f"accepted: {wanted}" if wanted else f"{step.action} takes none"
        yield f"tool: {step.tool!r} cannot do {step.action}; {form}"
    before = behind(pipeline, step.id)
    known = {*FACTS, "text.source", *before, *(f"text.{name}" for name in before), *(ENTRY if step.each else ())}
    for field, text in step.templated():
        for name in names_in(text):
            if name not in known:
                form = ", ".join(sorted(known))
                yield f"{field}: {{{name}}} stands for nothing here; accepted: {form} (a step's only if it is needed)"
    if step.prompt and (step.prompt.startswith(("/", "~")) or ".." in step.prompt.split("/")):
        yield f"prompt: {step.prompt!r} leads away; accepted: a file below {FOLDER}, such as prompts/summary.md"
    if step.redo and step.redo not in {n for n in before if pipeline.step(n).action is Action.LLM}:
        yield f"redo: {step.redo!r} cannot be done again; accepted: an llm step that this one needs"
    elif step.redo:
        yield from _once_only(pipeline, step)
    if step.action is Action.CLEANUP and step.input != ("{source}",):
        yield "input: accepted is {source}: only the goal's own source file is moved"
    if step.each and step.each not in {n for n in before if pipeline.step(n).answer == "topics"}:
        yield f"each: {step.each!r} gives no topics; accepted: an llm step with answer: topics that this one needs"


def _once_only(pipeline: Pipeline, check: Step) -> Iterator[str]:
    """What would be done twice if the step behind `redo` were done again."""
    for name in sorted(behind(pipeline, check.id)):
        action = pipeline.step(name).action
        if check.redo in behind(pipeline, name) and action not in REPEATABLE:
            yield f"redo: step {name} ({action}) would be done twice; let it need this check"


def find_circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Steps that wait for one another, the first one again at the end; empty if there are none."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def behind(pipeline: Pipeline, step_id: str) -> set[str]:
    """The steps that are done before `step_id` begins."""
    found: set[str] = set()
    left = list(pipeline.step(step_id).needs)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += pipeline.step(name).needs
    return found
