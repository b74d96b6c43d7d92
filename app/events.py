"""Every event as a small frozen model: name, data with Utah's camelCase names, id rule, to and from the wire."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Protocol, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from app.errors import BadInput, fault_of

SAFE_INTEGER = 2**53
MAX_WIRE_DEPTH = 60


def wire_safe(value: Any, depth: int = 0) -> Any:
    """`value` as JSON that every hop accepts: no lone surrogates, NaN or Infinity; integers over 2^53 as text.

    Everything that leaves a step or becomes an event passes here, because one lone surrogate fails a run for good.
    """
    if depth > MAX_WIRE_DEPTH:
        return "[nested too deeply]"
    match value:
        case None | bool():
            return value
        case str():
            return safe_text(value)
        case int():
            return value if abs(value) <= SAFE_INTEGER else _digits(value)
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {wire_safe(str(k), depth + 1): wire_safe(v, depth + 1) for k, v in value.items()}
        case BaseModel():
            return wire_safe(value.model_dump(by_alias=True, mode="json"), depth + 1)
        case Sequence() if not isinstance(value, bytes | bytearray):
            return [wire_safe(v, depth + 1) for v in value]
        case _:
            return wire_safe(str(value), depth + 1)


def safe_text(text: str) -> str:
    """`text` without lone surrogates (a question mark instead) and NUL."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\x00", "")


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes at most 4,300 digits
        return hex(value)


def _id_text(value: Any) -> Any:
    """Platform ids are text inside Moab, whatever the sender wrote."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[str, BeforeValidator(_id_text)]
OptionalId = Annotated[str | None, BeforeValidator(_id_text)]


class Wire(BaseModel):
    """A frozen model with camelCase names on the wire; unknown fields are kept out but never refused."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class Sender(Wire):
    """Who wrote the message."""

    id: Id
    name: str | None = None
    username: str | None = None


class Destination(Wire):
    """Where the answer goes, in the platform's own ids.

    `reply_url` is an address that the platform gave for answers to this input alone, where it takes no others.
    """

    chat_id: Id
    message_id: OptionalId = None
    thread_id: OptionalId = None
    reply_url: str | None = None


class Attachment(Wire):
    """A file that came with a message: `ref` is what the channel needs to fetch it.

    `kind` is photo, voice, audio, video, video_note, animation or document; `size` is in bytes. Once fetched it has a
    `path` relative to the workspace; what cannot be had has a `fault`, a sentence that says why. `quoted`: it came with
    the message that is answered, and somebody else may speak in it.
    """

    kind: str
    ref: str | None = None
    name: str | None = None
    mime: str | None = None
    size: int | None = None
    duration_s: int | None = None
    path: str | None = None
    fault: str | None = None
    quoted: bool | None = None


class Event(Wire):
    """Base of all events. `name` is the event's name on the wire; the fields are its data."""

    name: ClassVar[str]
    may_wait: ClassVar[bool] = False
    """Whether it may be sent for a later time. What starts turns never is: its policies act when it is accepted."""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Parse from an event's data, whatever the event's name (an invoked function sees another name).

        Raises BadInput naming the event and each field that does not fit.
        """
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {fault_of(e)}" for e in error.errors())
            raise BadInput(f"{cls.name}: the data does not fit: {faults}.") from error

    def to_wire(self, event_id: str, ts: int | None = None) -> dict[str, Any]:
        """The event as the engine takes it. `event_id` is the start signal's id: fresh for every re-send.

        `ts` (milliseconds since 1970) is when the engine is to act on it; only events that `may_wait` have one.
        """
        if ts is not None and not self.may_wait:
            raise ValueError(f"{self.name} must not be sent for a later time")
        data = wire_safe(self.model_dump(by_alias=True, exclude_none=True, mode="json"))
        wire: dict[str, Any] = {"name": self.name, "id": event_id, "data": data}
        return wire if ts is None else wire | {"ts": ts}


class EventSender(Protocol):
    """The one way events leave: the engine in this process, or Inngest through the SDK's client."""

    async def send(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Return once the engine has accepted `events` durably; raises when it has not."""
        ...


class Routed(Event):
    """What messages and commands share: where they came from and where answers go."""

    message_key: str | None = None
    session_key: str
    channel: str
    sender: Sender | None = None
    destination: Destination
    channel_meta: dict[str, Any] = Field(default_factory=dict)
    origin: str = "person"
    sent_at: str | None = None


class MessageReceived(Routed):
    """Something was said to the agent. `edited` is the platform's date of a change to the message of this key.

    `marks` is what the platform says beside the words: whom they answer, from whom they were passed on.
    """

    name: ClassVar[str] = "agent.message.received"

    message: str
    attachments: tuple[Attachment, ...] = ()
    marks: tuple[str, ...] = ()
    steers: bool = True
    edited: str | None = None


class CommandReceived(Routed):
    """A line that starts with a slash; answered by acknowledge, so that it works while a turn runs.

    `behind` is the row of the newest message when it came in, at `at_ms`: what was said after it is not meant by it.
    """

    name: ClassVar[str] = "agent.command.received"

    command: str
    args: str = ""
    behind: int | None = None
    at_ms: int | None = None


class ReplyReady(Event):
    """A turn's answer lies in the outbox."""

    name: ClassVar[str] = "agent.reply.ready"

    turn_id: str
    session_key: str
    channel: str
    destination: Destination
    channel_meta: dict[str, Any] = Field(default_factory=dict)


class SubagentSpawn(Event):
    """A task for a sub-agent with a session of its own."""

    name: ClassVar[str] = "agent.subagent.spawn"

    task_id: str
    task: str
    sub_session_key: str
    parent_session_key: str
    mode: str = "wait"
    model: str | None = None
    parent_run_id: str | None = None
    parent_step_key: str | None = None
    due_at: str | None = None


class TurnStopped(Event):
    """A person stopped the session's turn. Runs of messages that came in after `before_ms` are not meant."""

    name: ClassVar[str] = "agent.turn.stopped"

    session_key: str
    turn_id: str | None = None
    before_ms: int | None = None


class TurnEnded(Event):
    """A turn is over; what follows a turn (memory, sweep) may be done now."""

    name: ClassVar[str] = "agent.turn.ended"

    session_key: str
    turn_id: str


class WakeDue(Event):
    """A stored wake of a session is due; without a wake: somebody wants a beat now."""

    name: ClassVar[str] = "agent.wake.due"
    may_wait: ClassVar[bool] = True

    session_key: str = ""
    wake_id: str = ""


CLOCK = "inngest/scheduled.timer"
"""The event of every schedule: Inngest's own name."""


class BeatDue(Event):
    """A beat of the clock has found something to do."""

    name: ClassVar[str] = "agent.beat.due"


class TaskCancelled(Event):
    """A sub-agent's task was cancelled."""

    name: ClassVar[str] = "agent.task.cancelled"

    task_id: str
    session_key: str


class WorkStepDone(Event):
    """A pipeline's step ended; the next may be ready."""

    name: ClassVar[str] = "agent.work.step.done"

    session_key: str
    step_id: str


class ApprovalDecided(Event):
    """A permitted person decided on an approval."""

    name: ClassVar[str] = "agent.approval.decided"

    approval_id: str
    session_key: str
    decision: str
    by: str | None = None
    note: str | None = None


CHAT_MOVED = "chat moved"
"""The command of a platform that says that the chat `destination` has the number `args` now. There is a blank in it, so
that nobody can type it."""


def message_event_id(message_key: str, cause: str = "first") -> str:
    """Event id of a message's start signal: `cause` is `first`, `edit-<date>` or `again-<n>`."""
    return f"{message_key}:{cause}"


def as_input(
    text: str, *, session_key: str, channel: str, destination: Destination, **routing: Any
) -> MessageReceived | CommandReceived:
    """The event for one input: a command if it starts with a slash and a name and brings no file, else a message.

    A file that is only `quoted` is not brought.
    """
    words = text.strip().split(maxsplit=1)
    head = words[0] if words else ""
    name = head[1:].partition("@")[0]
    common: dict[str, Any] = {"session_key": session_key, "channel": channel, "destination": destination}
    brings = any(not attachment.quoted for attachment in routing.get("attachments") or ())
    if head.startswith("/") and name.isidentifier() and not brings:
        routing.pop("attachments", None)
        routing.pop("marks", None)
        args = words[1].strip() if len(words) > 1 else ""
        return CommandReceived(command=name.lower(), args=args, **common, **routing)
    return MessageReceived(message=text, **common, **routing)
