"""The way in from Telegram: verify, parse, to_event, then deposit and send by what the composition root gives.

Source: core.telegram.org/bots/api, Update, Message and setWebhook.
"""

import contextlib
import hmac
import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from app.config import Settings
from app.errors import BadInput, ChannelError
from app.events import CHAT_MOVED, CommandReceived, Destination, MessageReceived, as_input, wire_safe
from app.sentences import NOT_YOUR_BUTTON, OLD_BUTTON, say
from webhooks import telegram_said as said
from webhooks.fields import as_dict, as_id, as_int, as_text
from webhooks.telegram_listen import Itself, introduce, look_for_webhook, poll
from webhooks.telegram_said import Bot
from webhooks.way_in import Accept, Door, Input, WayIn, read_body, refusal

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105
MAX_BODY_BYTES = 2**20
BUTTONS = ("approve", "deny", "answer")
"""The commands that buttons may stand for."""
KINDS = ("message", "channel_post", "edited_message", "edited_channel_post")
"""The kinds of update that bring something said."""

log = logging.getLogger("moab.webhooks")


def is_configured(settings: Settings) -> bool:
    return settings.telegram_bot_token is not None


def way_in(door: Door) -> WayIn:
    """With a secret the webhook; without one updates are fetched, which needs no public address."""
    itself = Itself(Bot(door.settings.telegram_bot_id))
    secret = door.settings.telegram_webhook_secret

    async def take(update: Mapping[str, Any]) -> None:
        event = to_event(update, bot=itself.bot)
        let_in = event is None or await door.accept(event)
        query_id = as_id(as_dict(update.get("callback_query")).get("id"))
        if query_id is not None:
            with contextlib.suppress(ChannelError):  # the button only stops to wait a little later
                await door.channel.call("answerCallbackQuery", **_button_answer(update, event, let_in))

    async def listen() -> None:
        if not await introduce(door.channel, door.clock, itself):
            return
        if secret is None:
            await poll(door.channel, door.clock, take)
        else:
            await look_for_webhook(door.channel)

    if secret is None:
        return WayIn(listen=listen)
    return WayIn(telegram_router(door.accept, secret=secret.get_secret_value(), who=lambda: itself.bot), listen)


def mapping_arguments(settings: Settings, given: Mapping[str, str]) -> Mapping[str, Any]:
    """What `to_event` takes besides the update: the bot, whose name is given as `bot.username`."""
    return {"bot": Bot(settings.telegram_bot_id, given.get("bot.username", ""))}


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


def to_event(update: Mapping[str, Any], *, bot: Bot) -> MessageReceived | CommandReceived | None:
    """The event for an update, or None if there is nothing to answer in it.

    New messages, posts of channels, edits and buttons count; in groups and channels only what is meant for the bot.
    An album is meant if one of its pictures is: the others say that they are `unaddressed`, and steer nobody. An edit
    has the key of the message it changes, and is never a command, nor is what was forwarded. Bots are ignored, or two
    of them would answer each other for ever; service messages and kinds of update not known here are nothing.
    """
    if update.get("callback_query"):
        return _pressed(as_dict(update.get("callback_query")), bot)
    kind = next((name for name in KINDS if update.get(name)), "")
    message = as_dict(update.get(kind))
    chat = as_dict(message.get("chat"))
    chat_id, message_id = as_id(chat.get("id")), as_id(message.get("message_id"))
    if not chat_id or not message_id:
        return None
    if message.get("migrate_to_chat_id") or message.get("migrate_from_chat_id"):
        return _moved(message, chat_id, bot)
    if _is_noise(message, kind, bot):
        return None
    text, attachments = said.unmentioned(said.words(message), bot), said.files(message, bot)
    if (not text.strip() and not attachments) or said.is_for_another(text, bot):
        return None
    meant = said.is_meant(message, bot)
    routing: dict[str, Any] = {
        "message_key": f"telegram:{bot.id}:{chat_id}:{message_id}",
        "sender": said.sender_of(message),
        "channel_meta": _meta(message, chat, meant) | said.names_nobody(message, bot),
        "sent_at": _moment(message.get("date")),
        **_place(message, bot, chat_id, message_id),
    }
    more: dict[str, Any] = {"attachments": attachments, "marks": said.marks(message, bot), "steers": meant}
    if kind.startswith("edited"):
        edited = as_id(message.get("edit_date")) or "0"
        return MessageReceived(message=text, edited=edited, **more, **routing)
    if message.get("forward_origin") or not meant:
        return MessageReceived(message=text, **more, **routing)
    return as_input(text, **more, **routing)


def _is_noise(message: Mapping[str, Any], kind: str, bot: Bot) -> bool:
    """Whether nobody is to answer a message: a bot's, a copy, a step of somebody who shares where he goes, or small
    talk of a group. What is part of an album may belong to one that is meant."""
    if as_dict(message.get("from")).get("is_bot") and not message.get("sender_chat"):
        return True
    moving = kind.startswith("edited") and bool(message.get("location"))
    may_belong = bool(message.get("media_group_id")) or said.is_meant(message, bot)
    return moving or message.get("is_automatic_forward") is True or not may_belong


def _place(message: Mapping[str, Any], bot: Bot, chat_id: str, message_id: str) -> dict[str, Any]:
    """The session of a message and where its answer goes."""
    # A thread of replies in an ordinary group also has a thread id; only a topic is a conversation of its own.
    is_topic = message.get("is_topic_message") is True
    thread_id = as_id(message.get("message_thread_id")) if is_topic else None
    place = f"telegram:{bot.id}:{chat_id}"
    return {
        "session_key": f"{place}:{thread_id}" if thread_id else place,
        "channel": "telegram",
        "destination": Destination(chat_id=chat_id, message_id=message_id, thread_id=thread_id),
    }


def _moved(message: Mapping[str, Any], chat_id: str, bot: Bot) -> CommandReceived:
    """A group that became a supergroup has another number; both say so, and it is one thing that is said."""
    former = as_id(message.get("migrate_from_chat_id")) or chat_id
    present = as_id(message.get("migrate_to_chat_id")) or chat_id
    return CommandReceived(
        command=CHAT_MOVED,
        args=present,
        message_key=f"telegram:{bot.id}:{former}:moved:{present}",
        session_key=f"telegram:{bot.id}:{former}",
        channel="telegram",
        destination=Destination(chat_id=former),
    )


def _pressed(query: Mapping[str, Any], bot: Bot) -> CommandReceived | None:
    """A button under a message of ours stands for a command; who pressed it is who gives the command."""
    message, presser = as_dict(query.get("message")), said.sender(as_dict(query.get("from")))
    chat = as_dict(message.get("chat"))
    query_id, message_id, chat_id = (as_id(v) for v in (query.get("id"), message.get("message_id"), chat.get("id")))
    if not query_id or not chat_id or not message_id or presser is None:
        return None
    meta = _meta({"from": query.get("from")}, chat) | {"pressed": True}
    event = as_input(
        f"/{as_text(query.get('data'))}",
        message_key=f"telegram:{bot.id}:{chat_id}:pressed:{query_id}",
        sender=presser,
        channel_meta=meta,
        **_place(message, bot, chat_id, message_id),
    )
    return event if isinstance(event, CommandReceived) and event.command in BUTTONS else None


def telegram_router(accept: Accept, *, secret: str, who: Callable[[], Bot]) -> APIRouter:
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
        bot = who()
        if not bot.username and _is_of_group(update):
            return refusal(503, "The bot does not know its name yet; please deliver the message again.")
        event = to_event(update, bot=bot)
        let_in = event is None or await _accepted(accept, event)
        if let_in is None:
            return refusal(500, "The message could not be stored; please deliver it again.")
        if not update.get("callback_query"):
            return JSONResponse({})
        # A call of the Bot API may be given as the answer to an update: the button stops waiting at once.
        return JSONResponse({"method": "answerCallbackQuery"} | _button_answer(update, event, let_in))

    return router


def _is_of_group(update: Mapping[str, Any]) -> bool:
    """Whether an update was said where only what names the bot counts."""
    said_there = (as_dict(as_dict(update.get(kind)).get("chat")).get("type") for kind in KINDS)
    return any(as_text(kind) in said.GROUPS for kind in said_there)


async def _accepted(accept: Accept, event: Input) -> bool | None:
    """Whether the sender is let in; None if the input could not be stored."""
    try:
        return await accept(event)
    except Exception:
        log.exception(
            "Message %s could not be stored; Telegram will deliver it again.",
            event.message_key,
            extra={"action": "accept_failed"},
        )
        return None


def _button_answer(update: Mapping[str, Any], event: Input | None, let_in: bool) -> dict[str, Any]:
    """What ends the waiting of a button; one that does nothing says why."""
    query = as_dict(update.get("callback_query"))
    answer = {"callback_query_id": as_id(query.get("id")) or ""}
    language = as_text(as_dict(query.get("from")).get("language_code"))
    text = OLD_BUTTON if event is None else "" if let_in else NOT_YOUR_BUTTON
    return answer | ({"text": say(text, language)} if text else {})


def _meta(message: Mapping[str, Any], chat: Mapping[str, Any], is_meant: bool = True) -> dict[str, Any]:
    """What only this channel knows: kind and title of the chat, language of the sender, album, message replied to.

    `group` is true where several people may speak; `unaddressed` where a part of an album does not say that the bot is
    meant.
    """
    kind = as_text(chat.get("type"))
    meta = {
        "chatType": kind,
        "chatTitle": as_text(chat.get("title")),
        "languageCode": as_text(as_dict(message.get("from")).get("language_code")),
        "mediaGroupId": as_text(message.get("media_group_id")),
        "replyToMessageId": as_id(as_dict(message.get("reply_to_message")).get("message_id")),
        "group": kind in said.GROUPS,
        "unaddressed": not is_meant,
    }
    return {name: value for name, value in meta.items() if value}


def _moment(seconds: Any) -> str | None:
    if as_int(seconds) is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return None
