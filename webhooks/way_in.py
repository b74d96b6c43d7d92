"""What a file in webhooks/ is: one platform's way in, and what the service hands to it.

Such a file has two functions: `is_configured(settings) -> bool`, and `way_in(door) -> WayIn`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from app.clock import Clock
from app.config import Settings
from app.errors import BadInput
from app.events import CommandReceived, MessageReceived

Input = MessageReceived | CommandReceived

Accept = Callable[[Input], Awaitable[bool]]
"""Returns once the message row is on disk and its start event is sent or due; raises if it could not be stored.

False: nothing was stored, for its sender is not let in.
"""

Wait = Callable[[Input, float], Awaitable[dict[str, Any]]]
"""What became of an input, after so many seconds at most."""


@dataclass(frozen=True)
class Door:
    """What the service hands to a way in.

    `channel` is the way out of the same name: a way in that fetches (long polling, a socket) says in a Protocol of its
    own what it calls there.
    """

    settings: Settings
    clock: Clock
    channel: Any
    accept: Accept
    wait: Wait
    new_key: Callable[[], str]


@dataclass(frozen=True)
class WayIn:
    """Routes to mount, and what listens as long as the service lives; either may be missing.

    `listen` ends only by being cancelled, or when going on makes no sense, which it has explained in the log then.
    What it raises is logged, and it is called again after a pause.
    """

    router: APIRouter | None = None
    listen: Callable[[], Awaitable[None]] | None = None


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The body, never more than the limit in memory; raises BadInput beyond it."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit_bytes:
            raise BadInput(f"The body is larger than {limit_bytes} bytes.")
    return bytes(body)


def refusal(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status)
