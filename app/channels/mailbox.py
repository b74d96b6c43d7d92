"""The way out for clients that come to fetch: the terminal and HTTP read the delivery rows themselves."""

from app.channels.channel import Part, Sent
from app.events import Destination


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

    async def acknowledge(self, destination: Destination) -> bool:
        return True

    async def close(self) -> None:
        return None
