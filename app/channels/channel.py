"""What a channel is: the way out to one platform, as one Protocol, and its results as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.events import Destination

Part = Mapping[str, Any]
"""One message as the platform takes it, as small JSON; made by `Channel.parts`, stored in the delivery row."""


@dataclass(frozen=True)
class Sent:
    """The platform took it; `receipt` names the message there."""

    receipt: Mapping[str, Any]


@dataclass(frozen=True)
class Later:
    """The platform asks to wait, or cannot be reached at all (nothing was handed over): try again after."""

    after_s: float | None
    reason: str


@dataclass(frozen=True)
class Refused:
    """The platform will never take it (blocked, chat gone, malformed)."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """The request was handed over and no answer came: it may or may not have arrived; never sent again blindly."""

    reason: str


SendResult = Sent | Later | Refused | Unknown


class Channel(Protocol):
    """One platform. Called from inside steps only; holds no session state."""

    @property
    def name(self) -> str:
        """The `channel` of events, for example `telegram`."""
        ...

    def parts(self, markdown: str) -> list[Part]:
        """Split a text into parts the platform accepts, in order. Pure; at least one part for a non-blank text."""
        ...

    async def send(self, destination: Destination, part: Part) -> SendResult:
        """Hand one part over, once, without retries of its own. Failures are values; raises nothing foreign."""
        ...

    async def acknowledge(self, destination: Destination) -> bool:
        """Show at once that the message arrived (typing sign). Best effort: false if it could not, never raises."""
        ...

    async def close(self) -> None:
        """Release connections; called once at shutdown."""
        ...
