"""The way out for clients that come to fetch: the terminal and HTTP read the delivery rows themselves."""

from pathlib import Path

from app.channels.channel import Absent, Fetched, Later, Part, Refused, Sent, Unknown
from app.config import Settings
from app.events import Attachment, Destination


def channels(settings: Settings) -> "tuple[MailboxChannel, ...]":
    return MailboxChannel("terminal"), MailboxChannel("http")


class MailboxChannel:
    """A channel that hands nothing over: a part is delivered as soon as its row is marked as sent."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def parts(self, markdown: str) -> list[Part]:
        return [{"text": markdown}] if markdown.strip() else []

    async def send(self, destination: Destination, part: Part) -> Sent:
        return Sent({"mailbox": True})

    async def find(self, destination: Destination, part: Part) -> Sent | Absent | Later | Unknown:
        return Absent()  # nothing was handed over

    async def acknowledge(self, destination: Destination) -> bool:
        return True

    async def conclude(self, destination: Destination, ok: bool) -> bool:
        return True

    @property
    def finds_previews(self) -> bool:
        return False

    async def preview(self, destination: Destination, text: str, shown: str | None, mark: str = "") -> str | None:
        return None  # these clients follow the turn itself

    async def fetch(self, attachment: Attachment, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        return Refused("Messages over HTTP bring no files.")

    async def close(self) -> None:
        return None
