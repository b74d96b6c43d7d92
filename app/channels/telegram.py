"""The way out to Telegram: one part, one attempt, and every failure as a value.

The Bot API is called directly: what becomes of a part hangs on the HTTP status and on how far the request got,
which the client libraries fold into one error. Source: core.telegram.org/bots/api, Making requests.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import httpx

from app.channels.channel import Later, Part, Refused, SendResult, Sent, Unknown
from app.channels.telegram_format import render
from app.errors import ChannelError
from app.events import Destination, wire_safe

CONNECT_S, WRITE_S, READ_S, KEEP_ALIVE_S = 5.0, 10.0, 15.0, 60.0
TYPING_S = 5.0
MARKUP_FAULT = re.compile(r"entit", re.IGNORECASE)
NOT_HANDED_OVER = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.InvalidURL)


class TelegramChannel:
    """Sends to Telegram as one bot. One HTTP client, kept alive between parts, released by `close`."""

    def __init__(self, token: str, api_base_url: str, read_s: float = READ_S) -> None:
        self._token = token.strip()
        self._read_s = read_s
        base = httpx.URL(api_base_url.rstrip("/") + "/")
        self._client = httpx.AsyncClient(
            base_url=base,
            transport=_TokenTransport(self._token, base),
        )

    @property
    def name(self) -> str:
        return "telegram"

    def parts(self, markdown: str) -> list[Part]:
        return render(markdown)

    async def send(self, destination: Destination, part: Part) -> SendResult:
        """One attempt. Telegram's refusal of the markup or of a chat that has moved is mended and asked once more."""
        params = _message_params(destination, part)
        answer = await self._post("sendMessage", params)
        for _ in range(2):
            if not isinstance(answer, _Answer) or (mended := _mended(params, answer)) is None:
                break
            params = mended
            answer = await self._post("sendMessage", params)
        return _result(answer) if isinstance(answer, _Answer) else answer

    async def acknowledge(self, destination: Destination) -> bool:
        params = {"chat_id": _number(destination.chat_id), "action": "typing"} | _thread(destination)
        answer = await self._post("sendChatAction", params, TYPING_S)
        return isinstance(answer, _Answer) and answer.ok

    async def call(self, method: str, read_s: float | None = None, **params: Any) -> Any:
        """The result of any other method of the Bot API; raises ChannelError with Telegram's own words.

        `read_s` must be longer than the `timeout` of a long poll.
        """
        answer = await self._post(method, params, read_s)
        if isinstance(answer, _Answer) and answer.ok:
            return answer.body.get("result")
        raise ChannelError(f"{method}: {answer.reason}")

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(
        self, method: str, params: Mapping[str, Any], read_s: float | None = None
    ) -> "_Answer | Later | Unknown":
        if self._client.is_closed:
            return Later(None, "The channel is closed.")
        timeout = httpx.Timeout(read_s or self._read_s, connect=CONNECT_S, write=WRITE_S)
        try:
            response = await self._client.post(method, json=wire_safe(params), timeout=timeout)
        except NOT_HANDED_OVER as error:
            return Later(None, self._safe(f"Telegram cannot be reached: {_named(error)}."))
        except httpx.HTTPError as error:
            return Unknown(self._safe(f"Telegram was asked and did not answer: {_named(error)}."))
        return _Answer(response.status_code, self._body(response))

    def _body(self, response: httpx.Response) -> Mapping[str, Any]:
        try:
            body = response.json()
        except ValueError:
            return {}
        if not isinstance(body, dict):
            return {}
        return body | {"description": self._safe(str(body.get("description", "")))}

    def _safe(self, text: str) -> str:
        return text.replace(self._token, "[bot token]") if self._token else text


class _TokenTransport(httpx.AsyncBaseTransport):
    """Puts the token into the path at the last moment, so that no log line, error or trace of the client has it.

    httpx logs the URL of every request at info: one host wrote its token 93,000 times.
    """

    def __init__(self, token: str, base: httpx.URL) -> None:
        self._segment = f"/bot{quote(token, safe=':')}/".encode()
        # A transport of one's own switches the client's proxy settings off.
        proxies: Mapping[str, str] = {} if proxy_bypass(base.host) else getproxies()
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEEP_ALIVE_S)
        proxy = proxies.get(base.scheme) or proxies.get("all")
        self._inner = httpx.AsyncHTTPTransport(limits=limits, proxy=proxy)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        folder, _, method = request.url.raw_path.rpartition(b"/")
        url = request.url.copy_with(raw_path=folder + self._segment + method)
        sent = httpx.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
        )
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Answer:
    """What Telegram said: HTTP status and JSON body (empty if it was not JSON)."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status, self.body = status, body
        self.ok = status == httpx.codes.OK and body.get("ok") is True
        self.reason = str(body.get("description") or f"Telegram answered with status {status}.")
        parameters = body.get("parameters")
        self.parameters: Mapping[str, Any] = parameters if isinstance(parameters, dict) else {}


def _result(answer: _Answer) -> SendResult:
    if answer.ok:
        message = answer.body.get("result") or {}
        return Sent({"messageId": message.get("message_id"), "chatId": message.get("chat", {}).get("id")})
    if answer.status == httpx.codes.TOO_MANY_REQUESTS:
        return Later(_seconds(answer.parameters.get("retry_after")), answer.reason)
    if 400 <= answer.status < 500:
        return Refused(answer.reason)
    if answer.status == httpx.codes.OK:
        return Unknown("Telegram's answer could not be read.")
    return Later(None, answer.reason)


def _mended(params: Mapping[str, Any], answer: _Answer) -> dict[str, Any] | None:
    """The same part in the form Telegram asks for, or None if there is nothing to mend."""
    if answer.status != httpx.codes.BAD_REQUEST:
        return None
    moved_to = answer.parameters.get("migrate_to_chat_id")
    if moved_to and str(moved_to) != str(params["chat_id"]):
        # A message number of the old chat means nothing in the new one.
        return {key: value for key, value in params.items() if key != "reply_parameters"} | {"chat_id": moved_to}
    if "entities" in params and MARKUP_FAULT.search(answer.reason):
        return {key: value for key, value in params.items() if key != "entities"}
    return None


def _message_params(destination: Destination, part: Part) -> dict[str, Any]:
    params: dict[str, Any] = {"chat_id": _number(destination.chat_id), "text": part["text"]} | _thread(destination)
    if part.get("entities"):
        params["entities"] = part["entities"]
    if destination.message_id and destination.chat_id.startswith("-"):  # in a private chat quoting is noise
        params["reply_parameters"] = {
            "message_id": _number(destination.message_id),
            "allow_sending_without_reply": True,
        }
    return params


def _thread(destination: Destination) -> dict[str, Any]:
    return {"message_thread_id": _number(destination.thread_id)} if destination.thread_id else {}


def _number(text: str) -> int | str:
    """Ids are text inside Moab and numbers at Telegram; a name such as @channel stays as it is."""
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else text


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value >= 0 else None


def _named(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip().rstrip(".")
