"""The way in from Slack: verify, parse, to_event, accept; over HTTP, or over a socket that needs no public address.

Sources: docs.slack.dev, "Verifying requests from Slack", "Using the Events API", "Handling user interaction".
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from app.clock import Clock
from app.config import Settings
from app.errors import BadInput
from app.events import wire_safe
from webhooks.slack_desk import Desk
from webhooks.slack_said import to_event
from webhooks.slack_socket import listen
from webhooks.way_in import Door, WayIn, read_body, refusal

__all__ = ["is_configured", "mapping_arguments", "parse", "slack_router", "to_event", "verify", "way_in"]

MAX_BODY_BYTES = 2**20
WINDOW_S = 300

log = logging.getLogger("moab.webhooks")


def is_configured(settings: Settings) -> bool:
    return settings.slack_bot_token is not None


def way_in(door: Door) -> WayIn:
    """Routes if there is a signing secret, a socket if there is a token of the app."""
    settings = door.settings
    desk = Desk(door.accept, door.channel)
    if settings.slack_signing_secret is None and settings.slack_app_token is None:
        log.warning("Neither SLACK_APP_TOKEN nor SLACK_SIGNING_SECRET is set, so nothing comes in from Slack.")
        return WayIn()
    router = None
    if settings.slack_signing_secret is not None:
        router = slack_router(desk, settings.slack_signing_secret.get_secret_value(), door.clock)
    if settings.slack_app_token is None:
        return WayIn(router)
    return WayIn(router, lambda: listen(door.channel.open_socket, desk.take, door.clock))


def mapping_arguments(settings: Settings, given: Mapping[str, str]) -> Mapping[str, Any]:
    """What `to_event` takes besides the payload: nothing."""
    return {}


def verify(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> bool:
    """Whether Slack signed this very body, at most five minutes from `now`. Without a secret nobody is let in."""
    given = {name.lower(): value for name, value in headers.items()}
    stated, signature = given.get("x-slack-request-timestamp", ""), given.get("x-slack-signature", "")
    if not secret or not (stated.isascii() and stated.isdigit() and len(stated) <= 12):
        return False
    if abs(now.timestamp() - int(stated)) > WINDOW_S:
        return False
    signed = hmac.new(secret.encode(), b"v0:" + stated.encode() + b":" + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(signature.encode(), f"v0={signed}".encode())


def parse(body: bytes, content_type: str) -> Mapping[str, Any]:
    """The payload of a request: an event as JSON, a slash command as a form, a button as JSON in a form.

    Made safe for every later hop; raises BadInput.
    """
    try:
        if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
            form = dict(parse_qsl(body.decode(), keep_blank_values=True))
            payload = json.loads(form["payload"]) if "payload" in form else form
        else:
            payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadInput("The body is neither JSON nor a form.") from error
    if not isinstance(payload, dict):
        raise BadInput("The payload is not a JSON object.")
    safe: Mapping[str, Any] = wire_safe(payload)
    return safe


def slack_router(desk: Desk, secret: str, clock: Clock) -> APIRouter:
    """`POST /webhooks/slack` for events, buttons and slash commands. 503 for what Slack is to deliver again."""
    router = APIRouter()

    @router.post("/webhooks/slack")
    async def receive(request: Request) -> Response:
        try:
            body = await read_body(request, MAX_BODY_BYTES)
            if not verify(request.headers, body, secret, clock.now()):
                return refusal(401, "The signature is missing, wrong or older than five minutes.")
            payload = parse(body, request.headers.get("content-type", ""))
        except BadInput as error:
            return refusal(400, str(error))
        if payload.get("type") == "url_verification":
            return JSONResponse({"challenge": payload.get("challenge")})
        heard = await desk.take(payload)
        if not heard.taken:
            return refusal(503, "The message could not be stored; please deliver it again.")
        return JSONResponse(dict(heard.body)) if heard.body else Response()

    return router
