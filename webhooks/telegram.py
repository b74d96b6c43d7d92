"""The way in from Telegram: verify, parse, to_event, then deposit and send by what the composition root gives.

Source: core.telegram.org/bots/api, Update, Message and setWebhook.
"""

import hmac
import json
import logging
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from app.config import Settings
from app.errors import BadInput
from app.events import Attachment, CommandReceived, Destination, MessageReceived, Sender, as_input, wire_safe
from webhooks.way_in import Accept, Door, WayIn, read_body, refusal

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105
MAX_BODY_BYTES = 2**20
BUTTONS = ("approve", "deny", "answer")
"""The commands that buttons may stand for."""
FILE_KINDS = ("voice", "audio", "video", "video_note", "animation", "document")

log = logging.getLogger("moab.webhooks")


def is_configured(settings: Settings) -> bool:
    return settings.telegram_bot_token is not None


def way_in(door: Door) -> WayIn:
    settings = door.settings
    if settings.telegram_webhook_secret is None:
        log.warning("TELEGRAM_WEBHOOK_SECRET is not set, so /webhooks/telegram is not there.")
        return WayIn()
    secret = settings.telegram_webhook_secret.get_secret_value()
    allowed = settings.telegram_allowed_chats
    return WayIn(telegram_router(door.accept, secret=secret, bot_id=settings.telegram_bot_id, allowed_chats=allowed))


def verify(headers: Mapping[str, str], secret: str) -> bool:
    """Whether the request carries the secret given to setWebhook. Without a secret nobody is let in."""
    given = next((value for name, value in headers.items() if name.lower() == SECRET_HEADER), "")
    return bool(secret) and hmac.compare_digest(given.encode(), secret.encode())


def parse(body: bytes) -> Mapping[str, Any]:
    """The update in a request's body, made safe for every later hop; raises BadInput."""
    try:
        update = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadInput("The body is not JSON.") from error
    if not isinstance(update, dict):
        raise BadInput("The body is not a JSON object.")
    safe: Mapping[str, Any] = wire_safe(update)
    return safe


def to_event(update: Mapping[str, Any], *, bot_id: str) -> MessageReceived | CommandReceived | None:
    """The event for an update, or None if there is nothing to answer in it.

    New messages, edits and buttons count. An edit has the key of the message it changes, and is never a command; bots
    are ignored, or two of them would answer each other for ever; service messages and kinds of update not known here
    are nothing.
    """
    if update.get("callback_query"):
        return _pressed(_dict(update.get("callback_query")), bot_id)
    message = _dict(update.get("message") or update.get("edited_message"))
    is_edit = not update.get("message")
    chat, sender = _dict(message.get("chat")), _dict(message.get("from"))
    chat_id, message_id = _id(chat.get("id")), _id(message.get("message_id"))
    if not chat_id or not message_id or sender.get("is_bot"):
        return None
    text = _text(message.get("text")) or _text(message.get("caption"))
    attachments = tuple(_attachments(message))
    if not text.strip() and not attachments:
        return None
    said: dict[str, Any] = {
        "message_key": f"telegram:{bot_id}:{chat_id}:{message_id}",
        "sender": _sender(sender),
        "channel_meta": _meta(message, chat, sender),
        "sent_at": _moment(message.get("date")),
        "attachments": attachments,
        **_place(message, bot_id, chat_id, message_id),
    }
    if is_edit:
        return MessageReceived(message=text, edited=_id(message.get("edit_date")) or "0", **said)
    return as_input(text, **said)


def _place(message: Mapping[str, Any], bot_id: str, chat_id: str, message_id: str) -> dict[str, Any]:
    """The session of a message and where its answer goes."""
    # A thread of replies in an ordinary group also has a thread id; only a topic is a conversation of its own.
    thread_id = _id(message.get("message_thread_id")) if message.get("is_topic_message") is True else None
    place = f"telegram:{bot_id}:{chat_id}"
    return {
        "session_key": f"{place}:{thread_id}" if thread_id else place,
        "channel": "telegram",
        "destination": Destination(chat_id=chat_id, message_id=message_id, thread_id=thread_id),
    }


def _pressed(query: Mapping[str, Any], bot_id: str) -> CommandReceived | None:
    """A button under a message of ours stands for a command; who pressed it is who gives the command."""
    message, sender = _dict(query.get("message")), _sender(_dict(query.get("from")))
    query_id, message_id = _id(query.get("id")), _id(message.get("message_id"))
    chat_id = _id(_dict(message.get("chat")).get("id"))
    if not query_id or not chat_id or not message_id or sender is None:
        return None
    event = as_input(
        f"/{_text(query.get('data'))}",
        message_key=f"telegram:{bot_id}:{chat_id}:pressed:{query_id}",
        sender=sender,
        channel_meta={"callbackQueryId": query_id},
        **_place(message, bot_id, chat_id, message_id),
    )
    return event if isinstance(event, CommandReceived) and event.command in BUTTONS else None


def telegram_router(accept: Accept, *, secret: str, bot_id: str, allowed_chats: Collection[str]) -> APIRouter:
    """`POST /webhooks/telegram`. Answers 200 only after `accept` returned: Telegram delivers again what it did not."""
    router = APIRouter()

    @router.post("/webhooks/telegram")
    async def receive(request: Request) -> JSONResponse:
        if not verify(request.headers, secret):
            return refusal(403, "The secret token is missing or wrong.")
        try:
            update = parse(await read_body(request, MAX_BODY_BYTES))
        except BadInput as error:
            return refusal(400, str(error))
        event = to_event(update, bot_id=bot_id)
        if event is None:
            return JSONResponse({})
        if not _is_allowed(event.destination.chat_id, allowed_chats):
            log.info(
                "Chat %s is not in TELEGRAM_ALLOWED_CHATS; its message is ignored.",
                event.destination.chat_id,
                extra={"action": "chat_not_allowed"},
            )
            return JSONResponse({})
        return await _accepted(accept, event)

    return router


async def _accepted(accept: Accept, event: MessageReceived | CommandReceived) -> JSONResponse:
    try:
        await accept(event)
    except Exception:
        log.exception(
            "Message %s could not be stored; Telegram will deliver it again.",
            event.message_key,
            extra={"action": "accept_failed"},
        )
        return refusal(500, "The message could not be stored; please deliver it again.")
    query_id = event.channel_meta.get("callbackQueryId")
    # A call of the Bot API may be given as the answer to an update: the button stops waiting at once.
    return JSONResponse({"method": "answerCallbackQuery", "callback_query_id": query_id} if query_id else {})


def _is_allowed(chat_id: str, allowed_chats: Collection[str]) -> bool:
    return "*" in allowed_chats or chat_id in allowed_chats


def _attachments(message: Mapping[str, Any]) -> Iterator[Attachment]:
    photos = message.get("photo")
    sizes = [size for size in map(_dict, photos if isinstance(photos, list) else []) if _text(size.get("file_id"))]
    if sizes:
        largest = max(sizes, key=lambda size: (_int(size.get("width")) or 0) * (_int(size.get("height")) or 0))
        yield _attachment("photo", largest)
    for kind in FILE_KINDS:
        file = _dict(message.get(kind))
        if _text(file.get("file_id")):
            yield _attachment(kind, file)
            return  # an animation comes a second time as a document; no message carries two files


def _attachment(kind: str, file: Mapping[str, Any]) -> Attachment:
    return Attachment(
        kind=kind,
        ref=_text(file.get("file_id")),
        name=_text(file.get("file_name")) or None,
        mime=_text(file.get("mime_type")) or None,
        size=_int(file.get("file_size")),
    )


def _sender(user: Mapping[str, Any]) -> Sender | None:
    user_id = _id(user.get("id"))
    if user_id is None:
        return None
    name = " ".join(part for part in (_text(user.get("first_name")), _text(user.get("last_name"))) if part)
    return Sender(id=user_id, name=name or None, username=_text(user.get("username")) or None)


def _meta(message: Mapping[str, Any], chat: Mapping[str, Any], sender: Mapping[str, Any]) -> dict[str, Any]:
    """What only this channel knows: kind and title of the chat, language of the sender, album, message replied to."""
    meta = {
        "chatType": _text(chat.get("type")),
        "chatTitle": _text(chat.get("title")),
        "languageCode": _text(sender.get("language_code")),
        "mediaGroupId": _text(message.get("media_group_id")),
        "replyToMessageId": _id(_dict(message.get("reply_to_message")).get("message_id")),
    }
    return {name: value for name, value in meta.items() if value}


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _id(value: Any) -> str | None:
    """An id as text; `wire_safe` has made text of the very large ones."""
    return str(value) if _int(value) is not None or (isinstance(value, str) and value) else None


def _moment(seconds: Any) -> str | None:
    if _int(seconds) is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return None
