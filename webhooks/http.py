"""The way in over HTTP: verify, parse, to_event, accept; for the terminal, scripts and other programs."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from app.config import Settings
from app.errors import BadInput, fault_of
from app.events import Attachment, CommandReceived, Destination, MessageReceived, Sender, as_input, message_event_id
from webhooks.http_files import FORM, MAX_FILES, Box, PostedFile
from webhooks.way_in import Accept, Door, Wait, WayIn, read_body

MAX_BODY_BYTES = 1_000_000
MAX_WAIT_S = 600.0
READ_ELSEWHERE = "POST a message here; GET /api/sessions/KEY/messages reads what was said (docs/http.md)."

# The length stands outside of the pattern: a bounded repeat of \w compiles to 10 MB.
Name = Annotated[str, Field(pattern=r"^[\w.:@+-]+$", min_length=1, max_length=200)]


def is_configured(settings: Settings) -> bool:
    return True


def way_in(door: Door) -> WayIn:
    settings = door.settings
    box = Box(settings.workspace, door.clock, ZoneInfo(settings.timezone), settings.attachment_bytes)
    return WayIn(http_router(door.accept, door.wait, door.new_key, box))


class Posted(BaseModel):
    """The body of `POST /api/messages`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    message: Annotated[str, Field(max_length=200_000)] = ""
    session_key: Name = "http:default"
    channel: Annotated[str, Field(pattern=r"^(terminal|http)$")] = "http"
    message_key: Name | None = None
    sender: Sender | None = None
    attachments: Annotated[tuple[PostedFile, ...], Field(max_length=MAX_FILES)] = ()


def parse(body: bytes) -> Posted:
    """The posted message. Raises BadInput naming each field and the accepted form."""
    try:
        posted = Posted.model_validate_json(body)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'body'}: {fault_of(e)}" for e in error.errors())
        form = (
            '{"message": "text", "sessionKey"?: "name", "channel"?: "http"|"terminal", "messageKey"?: "unique", '
            f'"attachments"?: [{FORM}]}}'
        )
        raise BadInput(f"The message does not fit: {faults}. Accepted: {form}.") from error
    if not posted.message.strip() and not posted.attachments:
        raise BadInput("The message is blank.")
    return posted


def to_event(
    posted: Posted, message_key: str, attachments: tuple[Attachment, ...] = ()
) -> MessageReceived | CommandReceived:
    """Pure. The reply goes to the mailbox of the session."""
    return as_input(
        posted.message,
        message_key=message_key,
        session_key=posted.session_key,
        channel=posted.channel,
        sender=posted.sender,
        destination=Destination(chat_id=posted.session_key),
        attachments=attachments,
    )


def http_router(accept: Accept, wait: Wait, new_key: Callable[[], str], box: Box) -> APIRouter:
    """`POST /api/messages[?wait=seconds]`: 202 with ids once the message is stored, 200 with the reply if awaited."""
    router = APIRouter()

    @router.post("/api/messages")
    async def post_message(
        request: Request, wait_s: Annotated[float, Query(alias="wait", ge=0, le=MAX_WAIT_S)] = 0
    ) -> Any:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise BadInput("The content type must be application/json.")
        # In a thread: a recording in the body is megabytes of text.
        posted = await asyncio.to_thread(parse, await read_body(request, MAX_BODY_BYTES + box.body_bytes))
        own_key = posted.message_key or new_key()
        # A client's key is its own within one session: another may well count from one, too.
        message_key = f"{posted.channel}:{posted.session_key}:{own_key}"
        event = to_event(posted, message_key, await box.bring_in(posted.attachments, message_key))
        await accept(event)
        ids = {
            "messageKey": own_key,
            "sessionKey": event.session_key,
            "eventId": message_event_id(event.message_key or ""),
        }
        if wait_s <= 0:
            return JSONResponse(ids | {"status": "accepted"}, 202)
        answer = await wait(event, wait_s)
        return JSONResponse(ids | answer, 202 if answer["status"] in ("pending", "asked") else 200)

    @router.get("/api/messages", include_in_schema=False)
    async def nothing_to_read() -> JSONResponse:
        """Here messages are only taken: without this the pages behind would say that nothing is here."""
        return JSONResponse({"error": READ_ELSEWHERE}, 405, {"allow": "POST"})

    return router
