"""A fake Telegram Bot API server: checks what Telegram checks, records every call, fails as scripted.

A script entry: `{"method": "sendMessage", "kind": "rate_limit", "times": 2, "retry_after": 3}`; `chat` limits it
to one chat, `delay_s` makes the answer wait. The kinds are the keys of FAULTS below, and

- `slow`: an ordinary answer, after `delay_s`;
- `drop_before`: the connection is dropped after `delay_s`; Telegram did not take the call;
- `drop_after`: Telegram took the call, the answer is lost;
- `hang`: Telegram took the call and never answers;
- `parse_error` with `only_marked`: an ordinary answer for a text without entities;
- `status` with `status`, `description` and `parameters`: any other answer.
"""

import base64
import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.fakes.fake_server import FOR_EVER_S, FakeServer, Reply, Request

TOKEN = "123456:fake-bot-token"
MAX_TEXT_UNITS = 4096
MAX_ENTITIES = 100
MAX_CAPTION_UNITS = 1024
FILE_METHODS = {
    "sendDocument": ("document", 50_000_000),
    "sendPhoto": ("photo", 10_000_000),
    "sendVoice": ("voice", 50_000_000),
}
"""The field of the file, and how many bytes it may have."""
MARKUP = {
    *("bold", "italic", "underline", "strikethrough", "spoiler", "code", "pre", "text_link", "blockquote"),
    *("expandable_blockquote", "custom_emoji", "url", "mention", "hashtag", "email", "text_mention", "bot_command"),
}

FAULTS: dict[str, tuple[int, str]] = {
    "rate_limit": (429, "Too Many Requests: retry after {retry_after}"),
    "forbidden": (403, "Forbidden: bot was blocked by the user"),
    "chat_not_found": (400, "Bad Request: chat not found"),
    "parse_error": (400, "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 7"),
    "migrate": (400, "Bad Request: group chat was upgraded to a supergroup chat"),
    "server_error": (500, "Internal Server Error"),
    "unauthorized": (401, "Unauthorized"),
}


class Refusal(Exception):
    """What the real server answers with status 400."""


class TelegramServer(FakeServer):
    """Fake Telegram Bot API."""

    def __init__(self, *, token: str = TOKEN, port: int = 0, log: Path | None = None) -> None:
        super().__init__(port=port, log=log)
        self.token = token
        self.updates: list[dict[str, Any]] = []
        self.webhook: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.prefix = ""
        self._message_id = 1000
        self._edits: dict[tuple[str, Any], dict[str, Any]] = {}
        self._lock = threading.Lock()

    def sent(self, chat_id: int | str | None = None) -> list[dict[str, Any]]:
        """The messages Telegram took, in order, also those whose answer was lost."""
        taken = [call.detail["message"] for call in self.calls() if "message" in call.detail]
        return [message for message in taken if chat_id is None or str(message["chat"]["id"]) == str(chat_id)]

    def push(self, update: Mapping[str, Any]) -> None:
        """Put an update before getUpdates."""
        self.updates.append(dict(update))

    def matches(self, entry: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        return all(name not in entry or str(entry[name]) == facts[name] for name in ("method", "chat"))

    def control(self, path: str, params: dict[str, Any]) -> Any:
        match path:
            case "/__updates":
                self.updates.extend(params["updates"])
                return {"ok": True}
            case "/__files":
                self.files |= {name: base64.b64decode(content) for name, content in params["files"].items()}
                return {"ok": True}
            case "/__sent":
                return {"messages": self.sent(params.get("chat_id"))}
        return None

    def answer(self, request: Request) -> Reply:
        first, _, rest = request.path.removeprefix(self.prefix).strip("/").partition("/")
        if first == "file":
            return self._file(rest)
        if unquote(first) != f"bot{self.token}":
            return _error(401, "Unauthorized")
        params = request.params()
        entry = self.take({"method": rest, "chat": str(params.get("chat_id"))}) or {"kind": "slow"}
        if entry["kind"] == "parse_error" and entry.get("only_marked") and not params.get("entities"):
            entry = {"kind": "slow"}
        if entry["kind"] in ("slow", "drop_after", "hang"):
            return self._taken(rest, params, entry)
        self.record(rest, params, entry["kind"])
        return _failure(entry)

    def _taken(self, method: str, params: dict[str, Any], entry: Mapping[str, Any]) -> Reply:
        delay_s = float(entry.get("delay_s", 0))
        try:
            result = self._result(method, params)
        except Refusal as refusal:
            self.record(method, params, "refused", reason=str(refusal))
            return _error(400, f"Bad Request: {refusal}")
        if result is None:
            self.record(method, params, "unknown_method")
            return _error(404, "Not Found")
        outcome = "ok" if entry["kind"] == "slow" else entry["kind"]
        self.record(
            method, params, outcome, **({"message": result} if method in ("sendMessage", *FILE_METHODS) else {})
        )
        if entry["kind"] == "slow":
            wait_s = delay_s or self._poll_wait_s(method, params, result)
            return Reply(body={"ok": True, "result": result}, delay_s=wait_s)
        return Reply(drop=True, delay_s=FOR_EVER_S if entry["kind"] == "hang" else delay_s)

    def _result(self, method: str, params: dict[str, Any]) -> Any:
        bot = {"id": int(self.token.partition(":")[0]), "is_bot": True, "first_name": "Moab", "username": "moab_bot"}
        match method:
            case "sendMessage":
                return self._message(params, bot)
            case "editMessageText":
                return self._edited(params)
            case "sendDocument" | "sendPhoto" | "sendVoice":
                return self._file_message(method, params, bot)
            case "sendChatAction" | "setMyCommands" | "setMessageReaction" | "answerCallbackQuery":
                return True
            case "getMe":
                return bot
            case "setWebhook":
                self.webhook = params
                return True
            case "deleteWebhook":
                self.webhook = {}
                return True
            case "getWebhookInfo":
                return {"url": self.webhook.get("url", ""), "pending_update_count": len(self.updates)}
            case "getUpdates":
                return self._pending(int(params.get("offset") or 0))
            case "getFile":
                return self._file_facts(params.get("file_id", ""))
        return None

    def _message(self, params: dict[str, Any], bot: Mapping[str, Any]) -> dict[str, Any]:
        chat_id, text = params.get("chat_id"), str(params.get("text") or "")
        if not chat_id:
            raise Refusal("chat_id is empty")
        if not text.strip():
            raise Refusal("message text is empty")
        if units(text) > MAX_TEXT_UNITS:
            raise Refusal("message is too long")
        check_keyboard(params.get("reply_markup"))
        return self._stored(params, bot, {"text": text} | self._checked_entities(text, params))

    def _edited(self, params: dict[str, Any]) -> dict[str, Any]:
        """Edits change the text and take the buttons away; who looks for them finds the calls. One that changes nothing
        is refused."""
        known = [
            message for message in self.sent(params.get("chat_id")) if message["message_id"] == params["message_id"]
        ]
        if not known:
            raise Refusal("message to edit not found")
        text = str(params.get("text") or "")
        if not text.strip() or units(text) > MAX_TEXT_UNITS:
            raise Refusal("message text is empty or too long")
        edited = {"text": text} | self._checked_entities(text, params)
        place = str(params["chat_id"]), params["message_id"]
        if self._edits.get(place) == edited:
            raise Refusal("message is not modified: specified new message content is exactly the same")
        self._edits[place] = edited
        return known[0] | edited

    @staticmethod
    def _checked_entities(text: str, params: dict[str, Any]) -> dict[str, Any]:
        entities = params.get("entities") or []
        entities = json.loads(entities) if isinstance(entities, str) else entities
        check_entities(text, entities)
        return {"entities": entities[:MAX_ENTITIES]}

    def _file_message(self, method: str, params: dict[str, Any], bot: Mapping[str, Any]) -> dict[str, Any]:
        field, limit = FILE_METHODS[method]
        sent = params.get(field)
        if not params.get("chat_id"):
            raise Refusal("chat_id is empty")
        if not isinstance(sent, dict) or not sent["size"]:
            raise Refusal("file must be non-empty")
        if sent["size"] > limit:
            raise Refusal("file is too big")
        caption = str(params.get("caption") or "")
        if units(caption) > MAX_CAPTION_UNITS:
            raise Refusal("message caption is too long")
        content = {field: {"file_name": sent["filename"], "file_size": sent["size"]}}
        return self._stored(params, bot, content | ({"caption": caption} if caption else {}))

    def _stored(self, params: dict[str, Any], bot: Mapping[str, Any], content: dict[str, Any]) -> dict[str, Any]:
        chat_id = params["chat_id"]
        with self._lock:
            self._message_id += 1
            message_id = self._message_id
        kind = "supergroup" if str(chat_id).startswith("-") else "private"
        message = {"message_id": message_id, "date": int(time.time()), "from": dict(bot)} | content
        message |= {"chat": {"id": _number(chat_id), "type": kind}}
        for name in ("message_thread_id", "reply_parameters"):
            if params.get(name):
                message[name] = params[name]
        return message

    def _pending(self, offset: int) -> list[dict[str, Any]]:
        """Updates from `offset`; asking for an offset forgets those before it, as on the real server."""
        self.updates = [update for update in self.updates if update["update_id"] >= offset]
        return self.updates[:100]

    @staticmethod
    def _poll_wait_s(method: str, params: Mapping[str, Any], result: Any) -> float:
        """A long poll with nothing to give waits, but only shortly: a test has no time for 30 seconds."""
        return min(float(params.get("timeout") or 0), 0.05) if method == "getUpdates" and not result else 0.0

    def _file_facts(self, file_id: str) -> dict[str, Any]:
        if file_id not in self.files:
            raise Refusal("wrong file_id or the file is temporarily unavailable")
        size = len(self.files[file_id])
        if size > 20 * 2**20:
            raise Refusal("file is too big")
        return {"file_id": file_id, "file_unique_id": file_id, "file_size": size, "file_path": f"files/{file_id}"}

    def _file(self, rest: str) -> Reply:
        token, _, name = rest.partition("/files/")
        if unquote(token) != f"bot{self.token}" or name not in self.files:
            return _error(404, "Not Found")
        return Reply(body=self.files[name])


def _number(chat_id: Any) -> Any:
    return int(chat_id) if str(chat_id).lstrip("-").isdigit() else chat_id


def units(text: str) -> int:
    """Length in UTF-16 code units, as Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def check_entities(text: str, entities: Any) -> None:
    """Raises Refusal for entities that are no entities or lie outside the text or inside a surrogate pair."""
    if not isinstance(entities, list):
        raise Refusal("can't parse entities: entities must be an Array")
    encoded = text.encode("utf-16-le", "surrogatepass")
    for entity in entities:
        if not isinstance(entity, dict) or entity.get("type") not in MARKUP:
            raise Refusal("can't parse MessageEntity: Unsupported type specified")
        if entity["type"] == "text_link" and not re.match(r"https?://[^/]+\.|tg://", entity.get("url", "")):
            raise Refusal(f"Entity URL '{entity.get('url')}' is invalid: Wrong HTTP URL")
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start < 0 or entity["length"] <= 0 or end * 2 > len(encoded):
            raise Refusal("ENTITY_BOUNDS_INVALID")
        for edge in (start, end):
            if 0xDC00 <= int.from_bytes(encoded[edge * 2 : edge * 2 + 2], "little") <= 0xDFFF:
                raise Refusal("ENTITY_BOUNDS_INVALID: inside a surrogate pair")


def check_keyboard(markup: Any) -> None:
    """Raises Refusal for an inline keyboard whose buttons Telegram would not take."""
    for button in [button for row in (markup or {}).get("inline_keyboard", ()) for button in row]:
        if not button.get("text"):
            raise Refusal("can't parse inline keyboard button: Text buttons are unallowed")
        if not 1 <= len(str(button.get("callback_data", "")).encode()) <= 64:
            raise Refusal("BUTTON_DATA_INVALID")


def _failure(entry: Mapping[str, Any]) -> Reply:
    kind, delay_s = entry["kind"], float(entry.get("delay_s", 0))
    if kind == "drop_before":
        return Reply(drop=True, delay_s=delay_s)
    if kind == "bad_gateway":
        return Reply(502, b"<html><h1>502 Bad Gateway</h1></html>", delay_s=delay_s)
    parameters = dict(entry.get("parameters") or {})
    if kind == "status":
        return _error(entry["status"], entry.get("description", "Scripted"), parameters, delay_s)
    if kind == "rate_limit":
        parameters["retry_after"] = entry.get("retry_after", 1)
    if kind == "migrate":
        parameters["migrate_to_chat_id"] = entry["to"]
    status, description = FAULTS[kind]
    return _error(status, description.format(retry_after=parameters.get("retry_after")), parameters, delay_s)


def _error(status: int, description: str, parameters: Mapping[str, Any] | None = None, delay_s: float = 0) -> Reply:
    body: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
    return Reply(status, body | ({"parameters": dict(parameters)} if parameters else {}), delay_s=delay_s)


if __name__ == "__main__":
    from tests.fakes.process import serve

    serve(TelegramServer)
