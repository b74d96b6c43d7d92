"""What the engine keeps in memory about open runs: an event, a run, its open steps, its calls."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from app.engine.scheduler import Timer

if TYPE_CHECKING:
    from app.engine.change import Change

#: The step id of a call that goes on from where the memos end.
DISCOVERY: Final = "step"
SCHEDULED, RUNNING = "Scheduled", "Running"
COMPLETED, FAILED, CANCELLED = "Completed", "Failed", "Cancelled"
#: What a run can be, in the order of its life.
STATUSES: Final = (SCHEDULED, RUNNING, COMPLETED, FAILED, CANCELLED)
OPEN: Final = "Open"
#: Events of the engine about its own runs; what they start emits none itself.
LIFECYCLE_EVENTS: Final = frozenset(
    {"inngest/function.finished", "inngest/function.failed", "inngest/function.cancelled"}
)
#: An escaped backslash, a surrogate pair, or (the last and only group) half a pair.
_SURROGATES = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(\\ud[89a-f][0-9a-f]{2})")


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def to_json(value: object) -> str:
    """Compact ASCII JSON. Half a surrogate pair, which no SDK can read, becomes the replacement character."""
    text = _ENCODER.encode(value)
    if "\\ud" in text:
        return _SURROGATES.sub(lambda found: "\\ufffd" if found[1] else found[0], text)
    return text


class Event:
    """One accepted event. `body` is the mapping that functions see."""

    __slots__ = ("_raw", "body", "id", "internal_id", "name", "received_ms", "ts")

    def __init__(self, internal_id: str, body: Mapping[str, Any], received_ms: int) -> None:
        self.internal_id = internal_id
        self.body = body
        self.received_ms = received_ms
        self.id = str(body["id"])
        self.name = str(body["name"])
        self.ts = int(body["ts"])
        self._raw: bytes | None = None

    @classmethod
    def stored(cls, internal_id: str, body: str, received_ms: int) -> "Event":
        """An event as the file has it."""
        event = cls(internal_id, json.loads(body), received_ms)
        event._raw = body.encode()
        return event

    @property
    def raw(self) -> bytes:
        """The body as JSON; made when first asked for, because most of the engine's own events interest nobody."""
        if self._raw is None:
            self._raw = to_json(self.body).encode()
        return self._raw


@dataclass(slots=True)
class Step:
    """An open step: planned, sleeping, waiting, or waiting for an invoked run."""

    id: str
    name: str
    op: str
    parallel: bool
    race: bool
    created_ms: int
    target: str | None = None
    opts: str | None = None
    due_ms: int | None = None
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class Moment:
    """Something to do at a time, in a change of its own, unless it has become `void` by then."""

    due_ms: int
    act: "Callable[[Change], None]"
    void: bool = False
    timer: Timer | None = None

    def cancel(self) -> None:
        """It is not to be done any more."""
        self.void = True
        if self.timer is not None:
            self.timer.cancel()


@dataclass(slots=True, eq=False)
class Held:
    """A start that waits: for quiet (debounce), for company (batch), or for its function to be resumed (pause)."""

    id: int
    why: str
    function: str
    key: str
    events: list[Event]
    due_ms: int | None = None
    latest_ms: int | None = None
    parent: tuple[str, str] | None = None
    moment: Moment | None = None


@dataclass(slots=True, eq=False)
class Job:
    """A call to make. `step_id` is a hash, or DISCOVERY. `slots` are the places it takes in concurrency limits;
    `unreached` is how often in a row its app was not there.
    """

    id: int
    run: "Run"
    step_id: str
    due_ms: int
    attempt: int = 0
    parallel: bool = False
    claimed: bool = False
    dropped: bool = False
    slots: tuple[str, ...] = ()
    unreached: int = 0
    timer: Timer | None = None
    #: Done when the claim is on disk: nothing of the call may happen before.
    written: "asyncio.Future[None] | None" = None
    #: When its app got it.
    called_ms: int = 0


class Memos:
    """The finished steps of a run in order of completion, kept as the JSON that calls carry.

    Both texts only grow at the end, so that a step costs the same after a thousand others, but for one copy.
    """

    __slots__ = ("known", "stack", "steps")

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.stack = bytearray()
        self.steps = bytearray()

    def __len__(self) -> int:
        return len(self.known)

    @property
    def size(self) -> int:
        """Bytes of state."""
        return len(self.steps)

    def add(self, step_id: str, memo: bytes) -> None:
        comma = b"," if self.known else b""
        name = step_id.encode()
        self.stack += b'%b"%b"' % (comma, name)
        self.steps += b'%b"%b":' % (comma, name)
        self.steps += memo
        self.known.add(step_id)


@dataclass(slots=True, eq=False)
class Run:
    """An open run. `memos` is None until a call needs them; `finished_steps` counts them either way."""

    id: str
    function: str
    event: Event
    created_ms: int
    status: str
    quiet: bool = False
    parent: tuple[str, str] | None = None
    singleton_key: str | None = None
    req_version: int = -1
    started_ms: int | None = None
    #: All events of a batch; empty for a run of one event.
    batch: tuple[Event, ...] = ()
    priority: int = 0
    replay_of: str | None = None
    finished_steps: int = 0
    memos: Memos | None = None
    open: dict[str, Step] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    in_flight: int = 0
    ended: bool = False
    deadline: Moment | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """What the function sees as `events`."""
        return self.batch or (self.event,)

    @property
    def planned_ms(self) -> int:
        """When it was to begin."""
        return self.created_ms if self.parent or self.replay_of else max(self.created_ms, self.event.ts)
