"""What a channel is: the way out to one platform, as one Protocol, and its results as values.

A file in app/channels/ that is a platform has `channels(settings) -> tuple[Channel, ...]`, and `set_up` (see SetUp)
where there is something to set up.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from app.config import Settings
from app.errors import BadInput
from app.events import Attachment, Destination
from app.sentences import Sentence

Part = Mapping[str, Any]
"""One message as the platform takes it, as small JSON; made by `Channel.parts`, stored in the delivery row.

`Channel.send` is given it with `key`, the name of its row: the mark by which the part can be found at the platform.
"""


@dataclass(frozen=True)
class Sent:
    """The platform took it; `receipt` names the message there, `moved_to` the chat if it has another number now."""

    receipt: Mapping[str, Any]
    moved_to: str | None = None


@dataclass(frozen=True)
class Later:
    """The platform asks to wait, or cannot be reached at all (nothing was handed over): try again after.

    `crowded` where it asks because too much is said, in one chat or in all of them; `timed_out` where nothing came.
    """

    after_s: float | None
    reason: str
    crowded: bool = False
    timed_out: bool = False


@dataclass(frozen=True)
class Refused:
    """The platform will never take it (blocked, chat gone, malformed)."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """The request was handed over and no answer came: it may or may not have arrived; never sent again blindly."""

    reason: str


TOO_LARGE = Sentence("The file is larger than {limit} bytes.")
"""Why a file that was to be fetched is refused."""

SendResult = Sent | Later | Refused | Unknown


@dataclass(frozen=True)
class Absent:
    """The platform has been asked, and the part did not arrive: it may be sent again."""


@dataclass(frozen=True)
class Fetched:
    """A file that came with a message lies where it was wanted; `size` in bytes."""

    size: int


class Channel(Protocol):
    """One platform. Called from inside steps only; holds no session state. No method raises anything foreign."""

    @property
    def name(self) -> str:
        """The `channel` of events, for example `telegram`."""
        ...

    def parts(self, markdown: str) -> list[Part]:
        """Split a text into parts the platform accepts, in order. Pure; at least one part for a non-blank text."""
        ...

    async def send(self, destination: Destination, part: Part) -> SendResult:
        """Hand one part over, once, without retries of its own. Failures are values."""
        ...

    async def find(self, destination: Destination, part: Part) -> Sent | Absent | Later | Unknown:
        """Whether a part arrived that was handed over without an answer, by its `key`; asked before it is sent again.

        Later: it cannot be told now, ask again. Unknown: this platform cannot be asked.
        """
        ...

    async def acknowledge(self, destination: Destination) -> bool | Later:
        """Show that the message arrived and is worked on (typing sign, reaction); called again to renew it.

        Best effort: false if it could not. Later: a sign that stays could not be set now, and is worth another try.
        """
        ...

    async def conclude(self, destination: Destination, ok: bool) -> bool | Later:
        """The turn that the message led to is over: take away or change what `acknowledge` shows, if it stays.

        False if it could not; Later: try again then, or it would stay for ever.
        """
        ...

    @property
    def finds_previews(self) -> bool:
        """Whether a preview bears its mark, so that a part with `instead` can take its place when its id is not known.

        `instead` is the mark and `since` when the preview was begun; where there is none such a part stands by itself,
        or with `only_instead` nowhere.
        """
        ...

    async def preview(self, destination: Destination, text: str, shown: str | None, mark: str = "") -> str | None:
        """Show an answer while it is written: in the message `shown`, or in a new one. Its id; None if there is none.

        Best effort. The final text replaces it: a part whose `edit` is the id. A new message bears `mark`.
        """
        ...

    async def fetch(self, attachment: Attachment, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        """Write a file that came with a message to the path `to`, which is new; once, without retries of its own.

        What is larger than `limit_bytes` is refused, wherever that shows. The reason is read by who sent it.
        """
        ...

    async def close(self) -> None:
        """Release connections; called once at shutdown."""
        ...


class Desk(Protocol):
    """The person at a terminal who sets a platform up."""

    @property
    def settings(self) -> Settings:
        """The settings as they are, also those that were kept a moment ago."""
        ...

    def say(self, text: str) -> None: ...

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str:
        """What the person types, without white space around it; what is `secret` is not shown."""
        ...

    def keep(self, **settings: str) -> None:
        """Write settings (named as the fields of Settings) into `.env` in MOAB_HOME. Raises ConfigError."""
        ...


Found = TypeVar("Found")

TRIES = 3


async def ask_until_right(
    desk: Desk, question: str, check: Callable[[str], Awaitable[Found]], *, secret: bool = False
) -> Found:
    """What `check` makes of an answer. Where it raises BadInput that is said and asked again; the third is raised."""
    for _ in range(TRIES - 1):
        try:
            return await check(await desk.ask(question, secret=secret))
        except BadInput as error:
            desk.say(str(error))
    return await check(await desk.ask(question, secret=secret))


SetUp = Callable[[Desk], Coroutine[Any, Any, None]]
"""Leads a person through setting a platform up, and checks what was given; raises MoabError with what is wrong."""
