"""The way out for a program of one's own: each part is posted to its callback address, signed as what comes in is.

A part has an `id`. What got no answer is posted again under the same id, and the program drops what it has already.
"""

import hashlib
import hmac
import json
from datetime import datetime
from pathlib import Path

import httpx

from app.channels.channel import Absent, Fetched, Later, Part, Refused, SendResult, Sent, Unknown
from app.clock import Clock, SystemClock
from app.config import Settings
from app.events import Attachment, Destination, wire_safe

TIMEOUT = httpx.Timeout(15.0, connect=5.0)


def channels(settings: Settings) -> "tuple[GenericChannel, ...]":
    secret = settings.generic_secret.get_secret_value() if settings.generic_secret else ""
    return (GenericChannel(settings.generic_callback_url, secret, SystemClock()),)


def sign(secret: str, body: bytes, at: datetime) -> dict[str, str]:
    """The headers that say who posts this body, and when."""
    stated = str(int(at.timestamp()))
    signed = hmac.new(secret.encode(), b"v1:" + stated.encode() + b":" + body, hashlib.sha256).hexdigest()
    return {"x-moab-timestamp": stated, "x-moab-signature": f"v1={signed}", "content-type": "application/json"}


class GenericChannel:
    """Posts to one address; `close` releases its connections."""

    def __init__(self, url: str, secret: str, clock: Clock) -> None:
        self._url, self._secret, self._clock = url, secret, clock
        self._http = httpx.AsyncClient(timeout=TIMEOUT)

    @property
    def name(self) -> str:
        return "generic"

    def parts(self, markdown: str) -> list[Part]:
        return [{"text": markdown}] if markdown.strip() else []

    async def send(self, destination: Destination, part: Part) -> SendResult:
        """One attempt. 2xx is taken, 4xx never will be, everything else is tried again."""
        if part.get("file"):
            return Refused("Files are not sent to a callback address; they lie in the workspace.")
        body = json.dumps(wire_safe(_posted(destination, part))).encode()
        try:
            answer = await self._http.post(self._url, content=body, headers=sign(self._secret, body, self._clock.now()))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Later(None, f"The callback address did not answer: {type(error).__name__}.")
        if answer.is_success:
            return Sent({"status": answer.status_code})
        said = f"The callback address answered with status {answer.status_code}."
        if answer.is_client_error and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
            return Refused(said)
        stated = answer.headers.get("retry-after", "")
        return Later(float(stated) if stated.isascii() and stated.isdigit() else None, said)

    async def find(self, destination: Destination, part: Part) -> Sent | Absent | Later | Unknown:
        return Absent()  # under its id it may be posted twice

    async def acknowledge(self, destination: Destination) -> bool:
        return False

    async def conclude(self, destination: Destination, ok: bool) -> bool:
        return True

    @property
    def finds_previews(self) -> bool:
        return False

    async def preview(self, destination: Destination, text: str, shown: str | None, mark: str = "") -> str | None:
        return None

    async def fetch(self, attachment: Attachment, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        return Refused("Messages of this kind bring no files.")

    async def close(self) -> None:
        await self._http.aclose()


def _posted(destination: Destination, part: Part) -> dict[str, object]:
    """What the program reads: `buttons` stand for commands that it may post as the text of a message."""
    posted = {
        "id": part.get("key"),
        "conversation": destination.chat_id,
        "thread": destination.thread_id,
        "inReplyTo": destination.message_id,
        "text": part["text"],
        "buttons": [{"text": b["text"], "command": f"/{b['data']}"} for row in part.get("buttons", ()) for b in row],
    }
    return {name: value for name, value in posted.items() if value}
