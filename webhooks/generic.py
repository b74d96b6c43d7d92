"""The way in for a program of one's own: signed JSON, a message each; the answer is posted to its callback address.

The signature is `v1=` and the hex HMAC-SHA256, under GENERIC_SECRET, of `v1:<x-moab-timestamp>:<body>`.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from app.clock import Clock
from app.config import Settings
from app.errors import BadInput
from app.events import CommandReceived, Destination, MessageReceived, Sender, as_input, wire_safe
from webhooks.fields import as_dict, as_id, as_text
from webhooks.way_in import Accept, Door, WayIn, read_body, refusal

MAX_BODY_BYTES = 2**20
WINDOW_S = 300
FORM = (
    '{"id": "unique", "conversation": "name", "text": "hello", "sender"?: {"id": "7", "name"?: "Ada"}, "thread"?: "x"}'
)


def is_configured(settings: Settings) -> bool:
    return settings.generic_secret is not None and bool(settings.generic_callback_url)


def way_in(door: Door) -> WayIn:
    secret = door.settings.generic_secret.get_secret_value() if door.settings.generic_secret else ""
    return WayIn(generic_router(door.accept, secret, door.clock))


def mapping_arguments(settings: Settings, given: Mapping[str, str]) -> Mapping[str, Any]:
    """What `to_event` takes besides the payload: nothing."""
    return {}


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> bool:
    """Whether this very body was signed at most five minutes from `now`. Without a secret nobody is let in."""
    given = {name.lower(): value for name, value in headers.items()}
    stated, signature = given.get("x-moab-timestamp", ""), given.get("x-moab-signature", "")
    if not secret or not (stated.isascii() and stated.isdigit() and len(stated) <= 12):
        return False
    signed = hmac.new(secret.encode(), b"v1:" + stated.encode() + b":" + body, hashlib.sha256).hexdigest()
    return abs(now.timestamp() - int(stated)) <= WINDOW_S and hmac.compare_digest(
        signature.encode(), f"v1={signed}".encode()
    )


def parse(body: bytes) -> Mapping[str, Any]:
    """The message in a request's body, made safe for every later hop; raises BadInput."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"The body is not JSON. Accepted: {FORM}.") from error
    if not isinstance(payload, dict):
        raise BadInput(f"The body is not a JSON object. Accepted: {FORM}.")
    safe: Mapping[str, Any] = wire_safe(payload)
    return safe


def to_event(payload: Mapping[str, Any]) -> MessageReceived | CommandReceived | None:
    """The event for a message, or None if it has no id, no conversation or no words. Pure."""
    number, chat = as_id(payload.get("id")), as_id(payload.get("conversation"))
    text, who = as_text(payload.get("text")), as_dict(payload.get("sender"))
    if not number or not chat or not text.strip():
        return None
    thread, who_id = as_id(payload.get("thread")), as_id(who.get("id"))
    place = f"generic:{chat}"
    return as_input(
        text,
        message_key=f"{place}:{number}",
        session_key=f"{place}:{thread}" if thread else place,
        channel="generic",
        sender=Sender(id=who_id, name=as_text(who.get("name")) or None) if who_id else None,
        destination=Destination(chat_id=chat, message_id=number, thread_id=thread),
    )


def generic_router(accept: Accept, secret: str, clock: Clock) -> APIRouter:
    """`POST /webhooks/generic`: 202 once the message cannot be lost; the same id again changes nothing."""
    router = APIRouter()

    @router.post("/webhooks/generic")
    async def receive(request: Request) -> JSONResponse:
        try:
            body = await read_body(request, MAX_BODY_BYTES)
            if not verify(request.headers, body, secret, clock.now()):
                return refusal(401, "The signature is missing, wrong or older than five minutes.")
            event = to_event(parse(body))
        except BadInput as error:
            return refusal(400, str(error))
        if event is None:
            return refusal(400, f"The message has no id, no conversation or no text. Accepted: {FORM}.")
        await accept(event)
        return JSONResponse({"messageKey": event.message_key}, 202)

    return router
