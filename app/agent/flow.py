"""What steers a turn: values that `receive` returns, so that a replay takes the branches it took before."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from app.agent.approvals.policy import Policy
from app.agent.models.chosen import Models
from app.agent.models.llm import Trouble


class Frozen(BaseModel):
    """A small value that crosses a step's border as JSON."""

    model_config = ConfigDict(frozen=True)

    def wire(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


Stop = Literal["superseded", "stopped", "stale", "nothing", "busy", "answered", "waiting"]


@dataclass(frozen=True)
class Taken:
    """What came of a run's wish for a session: why the turn is not to be (`waiting`: not before `wait_until`), the
    events that tell of what it took the place of, and what to ask the person before anything is answered.

    A turn that is done again grows from `start_head`, in the place of the run `replay_of`. `standing` is what a turn
    begins with knowing.
    """

    session_id: str
    stop: Stop | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    question: str = ""
    models: Models = field(default_factory=Models)
    speaks: bool = False
    wait_until: str | None = None
    start_head: int | None = None
    replay_of: str | None = None
    standing: str = ""


class Flow(Frozen):
    """A turn's fixed conditions, or the reason why there is no turn (`stop`).

    A `question` is put to the person instead of an answer. A turn that is done again has where it begins
    (`start_head`) and the run whose place it takes. One that `speaks` has its answer read aloud too.
    (`start_head`) and the run whose place it takes. `principal` is whose workspace and memory it is ("": the
    operator's), `zone` the time zone he named.
    """

    run_id: str
    session_key: str
    session_id: str = ""
    channel: str = ""
    stop: Stop | None = None
    model: str = ""
    fallback: str = ""
    summary_model: str = ""
    think: str = ""
    compact: bool = False
    delegates: bool = True
    max_iterations: int = 20
    code_version: str = ""
    question: str = ""
    wait_until: str | None = None
    start_head: int | None = None
    replay_of: str | None = None
    speaks: bool = False
    principal: str = ""
    zone: str = ""
    policy: Policy = Policy()
    standing: str = ""


class Call(Frozen):
    """One tool call of a thought: where its record lies and which tool it is.

    `beside` is how many calls run at the same time with this one, itself included. `print` is the same for calls of
    the same tool with the same arguments.
    """

    key: str
    name: str
    durable: bool = False
    beside: int = 1
    print: str = ""


class Thought(Frozen):
    """What one think step came to. `compact`, `fetch` and `transcribe` (files that came along) and `spent` asked no
    model.

    `saw` is whether pictures were shown; `advice` what is known of a failure beside its trouble.
    """

    kind: Literal[
        "act",
        "say",
        "empty",
        "failed",
        "compact",
        "fetch",
        "transcribe",
        "spent",
        "superseded",
        "stopped",
        "stale",
        "crashed",
    ]
    head: int | None = None
    calls: tuple[Call, ...] = ()
    trouble: Trouble | None = None
    message: str = ""
    wait_until: str | None = None
    saw: bool = False
    advice: str = ""


class Ask(Frozen):
    """A request that waits for a person: its number, how long until its row is to be looked at again, and whether
    the person has yet to be told.
    """

    id: str
    wait_s: int
    prompt: bool


class Observation(Frozen):
    """What one act step came to; the result itself lies on the call's row. With `ask`, a person decides first."""

    kind: Literal["done", "superseded", "stopped", "stale", "invoke", "ask", "crashed"]
    ok: bool = True
    ask: Ask | None = None
    invoke: dict[str, Any] | None = None


class Compaction(Frozen):
    """What one compact step came to: a summary was recorded, there is nothing to cover, or this try failed."""

    kind: Literal["done", "nothing", "failed", "superseded", "stopped", "stale", "crashed"]
    wait_until: str | None = None


class Fetching(Frozen):
    """What one fetch step came to: every file is there or given up, or there is a reason to wait."""

    kind: Literal["done", "later", "superseded", "stopped", "stale", "crashed"]
    wait_until: str | None = None


class Hearing(Frozen):
    """What one transcribe step came to; `unheard`: nothing else was said, and `text` is what to tell the person."""

    kind: Literal["done", "unheard", "superseded", "stopped", "stale", "crashed"]
    text: str = ""


class Ending(Frozen):
    """How a turn ended, or `more` when something newer has to be answered first. `text` is for a parent's turn."""

    kind: Literal["answered", "failed", "offered", "more", "superseded", "stopped", "crashed"]
    text: str = ""
