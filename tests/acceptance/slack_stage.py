"""Slack around the service: conversations of one test, signed requests to the service, and what Slack took."""

import hashlib
import hmac
import itertools
import json
import time
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.acceptance.service import Service
from tests.acceptance.stage import Calls
from tests.fakes.process import FakeProcess
from tests.fakes.slack_server import APP_TOKEN, ME, TEAM, TOKEN

SECRET = "acceptance-signing-secret"
ADA = "U0ADA00001"


class SlackChat:
    """A conversation of one test: direct (D...) or a channel (C...). Its tag stands in every text said there."""

    def __init__(self, number: int, kind: str = "D") -> None:
        self.id = f"{kind}0CHAT{number}"
        self.tag = f"<chat {number}>"
        self._numbers = itertools.count(1)

    @property
    def session_key(self) -> str:
        return f"slack:{TEAM}:{self.id}"

    def payload(self, text: str, **fields: Any) -> dict[str, Any]:
        """An event with a new message; as Slack does, with the signs of its markup escaped."""
        ts = f"{int(time.time())}.{next(self._numbers):06d}"
        said = text if text.startswith("<@") or "/" in text[:1] else f"{text} {self.tag}"
        escaped = said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        escaped = escaped.replace(f"&lt;@{ME}&gt;", f"<@{ME}>")
        event = {"type": "message", "channel": self.id, "user": ADA, "text": escaped, "ts": ts, "event_ts": ts}
        event |= {"channel_type": "im" if self.id.startswith("D") else "channel"}
        return {
            "type": "event_callback",
            "team_id": TEAM,
            "event_id": f"Ev{self.id}{ts}",
            "authorizations": [{"user_id": ME, "is_bot": True}],
            "event": event | fields,
        }


class SlackStage:
    """The fake Slack and what it saw, beside the model's stage."""

    def __init__(self, slack: FakeProcess) -> None:
        self.slack = slack
        self._posts = Calls(slack, "chat.postMessage")
        self._numbers = itertools.count(5000)

    def close(self) -> None:
        self._posts.close()

    def chat(self, kind: str = "D") -> SlackChat:
        return SlackChat(next(self._numbers), kind)

    def settings(self) -> dict[str, str]:
        return {
            "SLACK_BOT_TOKEN": TOKEN,
            "SLACK_SIGNING_SECRET": SECRET,
            "SLACK_ALLOWED": ADA,
            "SLACK_API_BASE_URL": self.slack.url,
        }

    def socket_settings(self) -> dict[str, str]:
        return self.settings() | {"SLACK_SIGNING_SECRET": "", "SLACK_APP_TOKEN": APP_TOKEN}

    def attempts(self, chat: SlackChat) -> list[dict[str, Any]]:
        """The calls of chat.postMessage for a conversation, with outcome and time."""
        return [call for call in self._posts() if call["params"].get("channel") == chat.id]

    def said(self, chat: SlackChat) -> list[dict[str, Any]]:
        """The messages that Slack took in a conversation, also those whose answer was lost."""
        found: list[dict[str, Any]] = self.slack.control("/__said", {"chat": chat.id})["messages"]
        return found

    def replies(self, chat: SlackChat) -> list[str]:
        return [text_of(message) for message in self.said(chat)]


def text_of(message: dict[str, Any]) -> str:
    """The markdown of a message, or its text."""
    blocks = [block["text"] for block in message.get("blocks") or () if block["type"] == "markdown"]
    return "".join(blocks) or str(message["text"])


def deliver(service: Service, payload: dict[str, Any], *, form: bool = False) -> int:
    """Deliver a payload as Slack does; the status, 0 if the connection broke off."""
    body = urlencode(payload) if form else json.dumps(payload)
    kind = "application/x-www-form-urlencoded" if form else "application/json"
    at = str(int(time.time()))
    signature = hmac.new(SECRET.encode(), f"v0:{at}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"x-slack-request-timestamp": at, "x-slack-signature": f"v0={signature}", "content-type": kind}
    try:
        return httpx.post(
            f"{service.url}/webhooks/slack", content=body, headers=headers, trust_env=False, timeout=20
        ).status_code
    except httpx.TransportError:
        return 0
