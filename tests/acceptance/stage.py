"""The world around the service: a fake Telegram and a fake model provider, each in its own process."""

import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any

import httpx

from tests.fakes.model_server import text_of
from tests.fakes.process import FakeProcess
from tests.fakes.telegram_server import TOKEN

SECRET = "acceptance-webhook-secret"
BOT = TOKEN.partition(":")[0]


class Chat:
    """A chat of one test. Its tag stands in every text said there, so that the fakes know whose turn a request is."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.tag = f"<chat {number}>"
        self._messages = itertools.count(1)

    @property
    def session_key(self) -> str:
        return f"telegram:{BOT}:{self.id}"

    def update(self, text: str, number: int | None = None) -> dict[str, Any]:
        """An update with a new message (or the one with `number`); commands stay as they are."""
        number = next(self._messages) if number is None else number
        message = {
            "message_id": number,
            "date": int(time.time()),
            "chat": {"id": self.id, "type": "private"},
            "from": {"id": 7, "is_bot": False, "first_name": "Ada"},
            "text": text if text.startswith("/") else f"{text} {self.tag}",
        }
        return {"update_id": self.id * 1000 + number, "message": message}


class Calls:
    """What a fake recorded, fetched piece by piece: a system prompt is long and there are many."""

    def __init__(self, fake: FakeProcess, method: str) -> None:
        self._http = httpx.Client(base_url=fake.url, trust_env=False, timeout=30)
        self._method = method
        self._seen: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def __call__(self) -> list[dict[str, Any]]:
        with self._lock:
            query: dict[str, str | int] = {"method": self._method, "after": len(self._seen)}
            self._seen.extend(self._http.get("/__calls", params=query).json()["calls"])
            return list(self._seen)

    def close(self) -> None:
        self._http.close()


class Stage:
    """Both fakes, and what they saw of one chat."""

    def __init__(self, telegram: FakeProcess, model: FakeProcess) -> None:
        self.telegram = telegram
        self.model = model
        self.asks = Calls(model, "chat")
        self._sends = Calls(telegram, "sendMessage")
        self._signs = Calls(telegram, "sendChatAction")
        self._chats = itertools.count(1000)

    def close(self) -> None:
        for calls in (self.asks, self._sends, self._signs):
            calls.close()

    def chat(self) -> Chat:
        return Chat(next(self._chats))

    def script(self, tag: str, *entries: Mapping[str, Any]) -> None:
        """How the model answers in one chat; each entry is used for ever unless it says how often.

        A rule on `last_user` means the words right before the tag.
        """
        self.model.script(*(_in_chat(tag, entry) for entry in entries))

    def asked(self, tag: str) -> list[dict[str, Any]]:
        """The requests to the model in which a user message has the tag."""
        return [call["params"] for call in self.asks() if tag in said_by_users(call["params"])]

    def attempts(self, chat: Chat) -> list[dict[str, Any]]:
        """The calls of sendMessage for a chat, with outcome and time."""
        return [call for call in self._sends() if str(call["params"].get("chat_id")) == str(chat.id)]

    def typing_signs(self, chat: Chat) -> list[dict[str, Any]]:
        """The calls of sendChatAction for a chat."""
        return [call for call in self._signs() if str(call["params"].get("chat_id")) == str(chat.id)]

    def replies(self, chat: Chat) -> list[str]:
        """The texts that Telegram took for a chat, also those whose answer was lost."""
        return [call["detail"]["message"]["text"] for call in self.attempts(chat) if "message" in call["detail"]]


def _in_chat(tag: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    rules = dict(entry.get("when", {}))
    rules["last_user"] = f"{rules.get('last_user', '')} {tag}".strip()
    return {"times": None} | dict(entry) | {"when": rules}


def said_by_users(request: Mapping[str, Any]) -> str:
    return "\n".join(text_of(message) for message in request["messages"] if message["role"] == "user")
