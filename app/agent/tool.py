"""What a tool is: the contract between the model's wishes and the code that fulfils them."""

import hashlib
import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from app.clock import Clock
from app.errors import BadInput, fault_of
from app.speech import Speech


class Effect(StrEnum):
    """What may be different in the world after a call; decides what happens when a call is attempted again."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    UNSAFE = "unsafe"


@dataclass(frozen=True)
class OutgoingFile:
    """A file for the user's chat: `path` is relative to the workspace and free of links, `name` what the user sees."""

    path: str
    name: str
    caption: str = ""


@dataclass(frozen=True)
class Sighting:
    """What was observed of a tracked task: `kind` and `data` as the ledger names them (STEP_PROGRESS, …)."""

    task_id: str
    kind: str
    step: str | None = None
    summary: str = ""
    source: str = "owner"
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolResult:
    """What the model reads as the outcome. `text` is UTF-8 of any length; the act step caps and spills it.

    `files` are requests to send: the act step writes a delivery row for each together with the result. `picture` is
    the content of a picture file, for models that see: a small copy is kept. `observed` goes into the ledger with it.
    """

    text: str
    ok: bool = True
    files: tuple[OutgoingFile, ...] = ()
    picture: bytes | None = None
    observed: tuple[Sighting, ...] = ()


class Notes(Protocol):
    """Where `remember` writes: the daily log of the workspace."""

    async def remember(self, text: str, key: str) -> str:
        """Append `text` to today's log once per `key`; answers with a sentence for the model."""
        ...


class Found(Protocol):
    """A message of an earlier or the present conversation; `snippet` is the part of it that was looked for."""

    @property
    def session_id(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def role(self) -> str: ...
    @property
    def snippet(self) -> str: ...


class History(Protocol):
    """What was said before in the chat of this turn, and in no other."""

    async def search(self, words: str, limit: int) -> Sequence[Found]:
        """At most `limit` messages that fit `words` (any text; nothing in it is an operator), best first."""
        ...


class Tasks(Protocol):
    """The open tasks of this conversation: what runs in the background, and what is set for a time."""

    async def listed(self) -> Sequence[str]:
        """A line for each open task, with its id first."""
        ...

    async def cancel(self, task_id: str) -> None:
        """End an open task; it reports nothing. Raises NotFound with a sentence for the model."""
        ...


@dataclass(frozen=True)
class WakeWish:
    """When to be woken, and why, as the model said it: one of a local time `at`, `after` such as 90m, and `cron`."""

    reason: str
    at: str | None = None
    after: str | None = None
    cron: str | None = None
    zone: str | None = None
    repeats: bool = False
    rings: bool = False


class Wakes(Protocol):
    """The wakes of this conversation."""

    async def schedule(self, step_key: str, wish: WakeWish) -> str:
        """Set one, once for a step; says when it comes. Raises BadInput with the accepted form."""
        ...

    async def listed(self) -> Sequence[str]:
        """A line for each open wake, with its id first."""
        ...

    async def cancel(self, wake_id: str) -> None:
        """End an open wake. Raises NotFound with a sentence for the model."""
        ...


class Commands(Protocol):
    """The commands that run in the background on this machine."""

    def seen(self, workspace: Path, task_id: str) -> Sequence[Sighting]:
        """How the command of a tracked task stands now. Blocks."""
        ...


class NoCommands:
    """Where nothing runs in the background."""

    def seen(self, workspace: Path, task_id: str) -> Sequence[Sighting]:
        return ()


class Ledger(Protocol):
    """The tracked tasks of this conversation. Each method writes once for a step and says how the task stands then."""

    async def begin(self, step_key: str, opening: Sighting) -> None:
        """Write down that work beside the conversation begins, before it does: the first of what its call observes."""
        ...

    async def start(self, step_key: str, goal: str, steps: Sequence[str]) -> str:
        """Begin a task; its id is in the answer. Raises BadInput."""
        ...

    async def observe(self, step_key: str, seen: Sighting) -> str:
        """Write down what was observed. Raises BadInput, and NotFound with the tasks that there are."""
        ...

    async def reply(self, step_key: str, seen: Sighting) -> str:
        """Answer the monitor's question; the branch is in the data. Raises as `observe` does."""
        ...


class Learnings(Protocol):
    """Where record_learning writes."""

    async def record(self, text: str, scope: str, key: str) -> str:
        """Keep `text`, or count it where about the same is known; once per `key`. A sentence for the model."""
        ...


class Goals(Protocol):
    """Work that goes through pipelines by itself."""

    async def make(self, step_key: str, pipeline: str, source: str, title: str) -> str:
        """Make a goal, once for a step; a sentence with its id. Raises BadInput or NotFound for the model."""
        ...

    async def listed(self) -> Sequence[str]:
        """A line for each of the newest goals, with its id first."""
        ...

    async def shown(self, goal_id: str) -> str:
        """One goal with its steps. Raises NotFound."""
        ...


@dataclass(frozen=True)
class ToolContext:
    """What one call may know. A tool gets everything from here and reads no environment, clock or global.

    `channel` is the name of the way out to the user ("" if unknown), `history` is missing where there is none.
    """

    workspace: Path
    session_id: str
    run_id: str
    step_key: str
    clock: Clock
    notes: Notes
    progress: Callable[[], None] = lambda: None
    allow_private_hosts: bool = False
    channel: str = ""
    history: History | None = None
    tasks: Tasks | None = None
    wakes: Wakes | None = None
    learnings: Learnings | None = None
    speech: Speech | None = None
    ledger: Ledger | None = None
    goals: Goals | None = None

    def new_task(self, of: str) -> str:
        """The id of a tracked task that this call begins: `of` is its first letter. The same if the call runs again."""
        return of + hashlib.sha256(f"{self.run_id}:{self.step_key}".encode()).hexdigest()[:10]


ToolBody = Callable[..., Awaitable[ToolResult | str]]


@dataclass(frozen=True)
class Tool:
    """A named ability with typed arguments.

    `run` is awaited once per attempt inside a durable step with validated arguments; it returns text for the
    model, and failures the model can mend come back as `ToolResult(ok=False)`. A `MoabError` it raises becomes
    such a result; any other exception is a fault of the tool and is reported to the model in one sentence.
    A `durable` tool is not run inside a step: the act phase maps it to engine primitives (delegate_task). One that
    `asks` is not run at all: its arguments are put to the user, whose answer is its result (ask_user). What a
    `contained` one does stays in the workspace, whatever it is told to do. The result of an `outside` one is given over
    the API while its turn waits: it is not run either.
    """

    name: str
    description: str
    effect: Effect
    arguments: type[BaseModel]
    run: ToolBody
    timeout_s: float = 120.0
    durable: bool = False
    asks: bool = False
    contained: bool = False
    outside: bool = False

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The function description in OpenAI's `tools` format (litellm translates it for other providers)."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        for prop in parameters.get("properties", {}).values():
            prop.pop("title", None)
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": parameters},
        }

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checked and coerced arguments by parameter name. Raises BadInput with one line per fault."""
        try:
            parsed = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            faults = [f"- {'.'.join(str(p) for p in e['loc']) or '(arguments)'}: {fault_of(e)}" for e in error.errors()]
            accepted = ", ".join(self._accepted())
            raise BadInput(
                f"{self.name}: the arguments do not fit.\n" + "\n".join(faults) + f"\nAccepted: {accepted}."
            ) from error
        return {name: getattr(parsed, name) for name in type(parsed).model_fields}

    def _accepted(self) -> list[str]:
        return [
            f"{name} ({'required' if info.is_required() else f'default {info.default!r}'})"
            for name, info in self.arguments.model_fields.items()
        ]


@dataclass(frozen=True)
class Toolbox:
    """The tools of one kind of turn, by name."""

    tools: Mapping[str, Tool] = field(default_factory=dict)

    @classmethod
    def of(cls, *tools: Tool) -> "Toolbox":
        """A toolbox of `tools`; a repeated name is a programming error and raises ValueError."""
        by_name = {t.name: t for t in tools}
        if len(by_name) != len(tools):
            raise ValueError("two tools share a name")
        return cls(by_name)

    def schemas(self) -> list[dict[str, Any]]:
        return [t.schema for t in self.tools.values()]

    def without(self, *names: str) -> "Toolbox":
        return Toolbox({n: t for n, t in self.tools.items() if n not in names})


def tool(
    effect: Effect,
    *,
    name: str | None = None,
    timeout_s: float = 120.0,
    durable: bool = False,
    asks: bool = False,
    contained: bool = False,
) -> Callable[[ToolBody], Tool]:
    """Make a Tool from an async function: the docstring is the description, `Annotated[..., Field(...)]`
    parameters after the first (the ToolContext) become the JSON schema."""

    def build(body: ToolBody) -> Tool:
        tool_name = name or body.__name__
        hints = typing.get_type_hints(body, include_extras=True)
        parameters = list(inspect.signature(body).parameters.values())[1:]
        fields: dict[str, Any] = {
            p.name: (hints[p.name], ... if p.default is inspect.Parameter.empty else p.default) for p in parameters
        }
        arguments = create_model(f"{tool_name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        return Tool(
            name=tool_name,
            description=inspect.cleandoc(body.__doc__ or ""),
            effect=effect,
            arguments=arguments,
            run=body,
            timeout_s=timeout_s,
            durable=durable,
            asks=asks,
            contained=contained,
        )

    return build
