"""What Telegram said to a request, and what it means for the part that was sent."""

import re
from collections.abc import Mapping
from typing import Any

import httpx

from app.channels.channel import Later, Refused, SendResult, Sent, Unknown
from app.events import Destination
from app.sentences import Sentence

STATUS = Sentence("Telegram answered with status {status}.")
OF_THE_BOT = (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND)
"""Telegram does not know the token: no fault of a part or a chat, and mended by who runs the service."""
GATEWAY = (httpx.codes.BAD_GATEWAY, httpx.codes.GATEWAY_TIMEOUT)
"""Said by what stands in front of the Bot API, which may have handed the part on."""
MARKUP_FAULT = re.compile(r"entit", re.IGNORECASE)
EDIT_FAULT = re.compile(r"message to edit|message can't be edited|MESSAGE_ID_INVALID", re.IGNORECASE)
TOPIC_FAULT = re.compile(r"message thread not found|TOPIC_(CLOSED|DELETED)", re.IGNORECASE)
KIND_FAULT = re.compile(r"photo|image|voice", re.IGNORECASE)


class Answer:
    """What Telegram said: HTTP status and JSON body (empty if it was not JSON)."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status, self.body = status, body
        self.ok = status == httpx.codes.OK and body.get("ok") is True
        self.reason = str(body.get("description") or STATUS.format(status=status))
        parameters = body.get("parameters")
        self.parameters: Mapping[str, Any] = parameters if isinstance(parameters, dict) else {}


def result_of_edit(answer: Answer | Later | Unknown, part: Mapping[str, Any]) -> SendResult | None:
    """What came of an edit, which may be done twice; None if the message is not there and is to be sent anew."""
    if isinstance(answer, Unknown):
        return Later(None, answer.reason)
    if not isinstance(answer, Answer):
        return answer
    if answer.status == httpx.codes.BAD_REQUEST and "not modified" in answer.reason:
        return Sent({"messageId": part["edit"]})
    came = result_of(answer)
    if isinstance(came, Unknown):
        return Later(None, came.reason)
    gone = answer.status == httpx.codes.BAD_REQUEST and EDIT_FAULT.search(answer.reason)
    return None if gone and part.get("preview") else came


def result_of(answer: Answer, destination: Destination | None = None) -> SendResult:
    """What became of a part; with the `destination` it was for, also whether that chat has another number now."""
    if answer.ok:
        message = answer.body.get("result") or {}
        chat_id = message.get("chat", {}).get("id")
        numbers = destination is not None and re.fullmatch(r"-?[0-9]+", destination.chat_id) and chat_id is not None
        moved = str(chat_id) if numbers and destination and str(chat_id) != destination.chat_id else None
        return Sent({"messageId": message.get("message_id"), "chatId": chat_id}, moved)
    if answer.status == httpx.codes.TOO_MANY_REQUESTS:
        return Later(_seconds(answer.parameters.get("retry_after")), answer.reason, crowded=True)
    if answer.status in OF_THE_BOT:
        return Later(None, answer.reason)
    if 400 <= answer.status < 500:
        return Refused(answer.reason)
    if answer.status == httpx.codes.OK:
        return Unknown("Telegram's answer could not be read.")
    doubtful = answer.status in GATEWAY or not answer.body
    return Unknown(answer.reason) if doubtful else Later(None, answer.reason)


def mended(params: Mapping[str, Any], answer: Answer) -> dict[str, Any] | None:
    """The same part in the form Telegram asks for, or None if there is nothing to mend."""
    if answer.status != httpx.codes.BAD_REQUEST:
        return None
    moved_to = answer.parameters.get("migrate_to_chat_id")
    if moved_to and str(moved_to) != str(params["chat_id"]):
        # A message number of the old chat means nothing in the new one.
        return {key: value for key, value in params.items() if key != "reply_parameters"} | {"chat_id": moved_to}
    if "message_thread_id" in params and str(params["chat_id"]).startswith("-") and TOPIC_FAULT.search(answer.reason):
        # The topic is gone or closed: the group hears it all the same.
        return {key: value for key, value in params.items() if key not in ("message_thread_id", "reply_parameters")}
    if "entities" in params and MARKUP_FAULT.search(answer.reason):
        return {key: value for key, value in params.items() if key != "entities"}
    return None


def is_about_kind(answer: Answer) -> bool:
    """Whether Telegram would take the file, but not as a picture (too long) or as a voice message (unwanted)."""
    return answer.status == httpx.codes.BAD_REQUEST and KIND_FAULT.search(answer.reason) is not None


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value >= 0 else None
