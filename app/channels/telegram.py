"""The way out to Telegram: one part, one attempt, and every failure as a value.

The Bot API is called directly: what becomes of a part hangs on the HTTP status and on how far the request got,
which the client libraries fold into one error. Source: core.telegram.org/bots/api, Making requests.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import getproxies, proxy_bypass

import httpx

from app.channels.channel import TOO_LARGE, Absent, Desk, Fetched, Later, Part, Refused, SendResult, Sent, Unknown
from app.channels.telegram_answer import STATUS, Answer, is_about_kind, mended, result_of, result_of_edit
from app.channels.telegram_file import Upload, caption_of, open_upload
from app.channels.telegram_format import render
from app.channels.telegram_setup import set_up_bot
from app.channels.workspace_file import CannotBeSent
from app.config import Settings
from app.errors import ChannelError
from app.events import Attachment, Destination, wire_safe
from app.sentences import Sentence

CONNECT_S, WRITE_S, READ_S, KEEP_ALIVE_S = 5.0, 10.0, 15.0, 60.0
TYPING_S = 5.0
QUIET_S = 5.0
CHUNK_BYTES = 2**20
FILE_FOLDER = "file"
"""What stands before the path of a file, which the transport moves in front of the token."""
NOT_GIVEN = Sentence("Telegram does not give the file: {reason}.")
NOT_COME = Sentence("The file did not come: {error}.")
AWAY = Sentence("Telegram cannot be reached: {error}.")
NO_ANSWER = Sentence("Telegram was asked and did not answer: {error}.")
UPLOAD_PATIENCE = 4
"""How many times longer than for a text Telegram may take to answer once it has the whole file."""

NOT_HANDED_OVER = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.InvalidURL)


def channels(settings: Settings) -> "tuple[TelegramChannel, ...]":
    """The bot of TELEGRAM_BOT_TOKEN."""
    token = settings.telegram_bot_token.get_secret_value() if settings.telegram_bot_token else ""
    return (TelegramChannel(token, settings.telegram_api_base_url, workspace=settings.workspace),)


async def set_up(desk: Desk) -> None:
    """Token, way in, and the first person who may talk to the bot. Raises MoabError with what is wrong."""
    await set_up_bot(desk, lambda token: TelegramChannel(token, desk.settings.telegram_api_base_url))


class TelegramChannel:
    """Sends to Telegram as one bot. One HTTP client, kept alive between parts, released by `close`."""

    def __init__(self, token: str, api_base_url: str, read_s: float = READ_S, workspace: Path | None = None) -> None:
        """`workspace` is where the files of parts lie; without it none can be sent."""
        self._token = token.strip()
        self._read_s = read_s
        self._workspace = workspace
        self._quiet_until = 0.0
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
        """One attempt. Telegram's refusal of the markup or of a chat that has moved is mended and asked once more.

        A part is a text (`text`, `entities`; with `buttons` under it, or in the place of the message `edit`) or a file
        of the workspace (`file`, `name`, `caption`).
        """
        if part.get("file"):
            return await self._send_file(destination, part)
        answer = await self._send_text(destination, part)
        if part.get("edit"):
            edited = result_of_edit(answer, part)
            if edited is not None:
                return edited
            answer = await self._send_text(destination, {k: v for k, v in part.items() if k != "edit"})
        return result_of(answer, destination) if isinstance(answer, Answer) else answer

    async def _send_text(self, destination: Destination, part: Part) -> Answer | Later | Unknown:
        method = "editMessageText" if part.get("edit") else "sendMessage"
        params = _message_params(destination, part)
        answer = await self._post(method, params)
        for _ in range(2):
            if not isinstance(answer, Answer) or (better := mended(params, answer)) is None:
                break
            params = better
            answer = await self._post(method, params)
        return answer

    async def _send_file(self, destination: Destination, part: Part) -> SendResult:
        try:
            upload = await asyncio.to_thread(open_upload, self._workspace, part)
        except CannotBeSent as error:
            return Refused(str(error))
        with upload.file:
            params = _file_params(destination, part)
            answer = await self._upload(upload, params)
            for _ in range(2):
                if not isinstance(answer, Answer):
                    break
                if (better := mended(params, answer)) is not None:
                    params, upload = better, upload.again()
                elif upload.method != "sendDocument" and is_about_kind(answer):
                    upload = upload.as_document()
                else:
                    break
                answer = await self._upload(upload, params)
        return result_of(answer, destination) if isinstance(answer, Answer) else answer

    async def _upload(self, upload: Upload, params: Mapping[str, Any]) -> Answer | Later | Unknown:
        return await self._post(upload.method, params, self._read_s * UPLOAD_PATIENCE, upload)

    async def find(self, destination: Destination, part: Part) -> Sent | Absent | Later | Unknown:
        if part.get("edit"):
            return Absent()  # a message may be changed twice: nobody sees a difference
        return Unknown("A bot cannot ask Telegram what it has sent.")

    async def acknowledge(self, destination: Destination) -> bool:
        params = {"chat_id": _number(destination.chat_id), "action": "typing"} | _thread(destination)
        answer = await self._post("sendChatAction", params, TYPING_S)
        return isinstance(answer, Answer) and answer.ok

    async def conclude(self, destination: Destination, ok: bool) -> bool:
        return True  # a typing sign ends by itself

    @property
    def finds_previews(self) -> bool:
        return False  # see docs/adr/0002 for what that costs

    async def preview(self, destination: Destination, text: str, shown: str | None, mark: str = "") -> str | None:
        now = asyncio.get_running_loop().time()
        parts = render(text)
        if not parts or now < self._quiet_until:
            return shown
        part = dict(parts[0]) | ({"edit": shown} if shown else {})
        method = "editMessageText" if shown else "sendMessage"
        answer = await self._post(method, _message_params(destination, part), TYPING_S)
        if not isinstance(answer, Answer):
            return shown
        if isinstance(asked := result_of(answer), Later):  # the final text must not wait for previews
            self._quiet_until = now + (asked.after_s or QUIET_S)
        message = answer.body.get("result")
        return str(message["message_id"]) if answer.ok and isinstance(message, dict) else shown

    async def fetch(self, attachment: Attachment, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        answer = await self._post("getFile", {"file_id": attachment.ref})
        if not isinstance(answer, Answer):
            return Later(None, answer.reason)
        if not answer.ok:
            asked = result_of(answer)
            if isinstance(asked, Refused):
                return Refused(NOT_GIVEN.format(reason=answer.reason))
            return asked if isinstance(asked, Later) else Later(None, answer.reason)
        path = str((answer.body.get("result") or {}).get("file_path") or "")
        return (
            await self._download(path, to, limit_bytes)
            if path
            else Refused(Sentence("Telegram does not give the file."))
        )

    async def _download(self, path: str, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        """Source: core.telegram.org/bots/api, getFile: the file lies under /file/bot<token>/<file_path>."""
        size = 0
        timeout = httpx.Timeout(self._read_s, connect=CONNECT_S)
        try:
            with to.open("wb") as file:
                async with self._client.stream("GET", f"{FILE_FOLDER}/{quote(path)}", timeout=timeout) as response:
                    if response.status_code != httpx.codes.OK:
                        return Later(None, STATUS.format(status=response.status_code))
                    async for chunk in response.aiter_bytes(CHUNK_BYTES):
                        size += len(chunk)
                        if size > limit_bytes:
                            return Refused(TOO_LARGE.format(limit=limit_bytes))
                        await asyncio.to_thread(file.write, chunk)
        except (httpx.HTTPError, OSError) as error:
            reason = self._safe(NOT_COME.format(error=_named(error)))
            return Later(None, reason, timed_out=isinstance(error, httpx.TimeoutException))
        return Fetched(size)

    async def call(self, method: str, read_s: float | None = None, **params: Any) -> Any:
        """The result of any other method of the Bot API; raises ChannelError with Telegram's own words.

        `read_s` must be longer than the `timeout` of a long poll.
        """
        answer = await self._post(method, params, read_s)
        if isinstance(answer, Answer) and answer.ok:
            return answer.body.get("result")
        status = answer.status if isinstance(answer, Answer) else 0
        asked = result_of(answer) if isinstance(answer, Answer) else answer
        after_s = asked.after_s if isinstance(asked, Later) else None
        raise ChannelError(f"{method}: {answer.reason}", status, after_s)

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(
        self, method: str, params: Mapping[str, Any], read_s: float | None = None, upload: Upload | None = None
    ) -> Answer | Later | Unknown:
        if self._client.is_closed:
            return Later(None, "The channel is closed.")
        timeout = httpx.Timeout(read_s or self._read_s, connect=CONNECT_S, write=WRITE_S)
        body = {"json": wire_safe(params)} if upload is None else {"data": _form(params), "files": upload.files()}
        try:
            response = await self._client.post(method, timeout=timeout, **body)
        except NOT_HANDED_OVER as error:
            return Later(None, self._safe(AWAY.format(error=_named(error))))
        except (httpx.HTTPError, OSError) as error:  # OSError: a file that cannot be read to its end
            return Unknown(self._safe(NO_ANSWER.format(error=_named(error))))
        return Answer(response.status_code, self._body(response))

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
        self._folder = base.raw_path
        # A transport of one's own switches the client's proxy settings off.
        proxies: Mapping[str, str] = {} if proxy_bypass(base.host) else getproxies()
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEEP_ALIVE_S)
        proxy = proxies.get(base.scheme) or proxies.get("all")
        self._inner = httpx.AsyncHTTPTransport(limits=limits, proxy=proxy)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path[len(self._folder) :]
        file = f"{FILE_FOLDER}/".encode()
        where = b"/" + file.rstrip(b"/") if path.startswith(file) else b""
        path = self._folder.rstrip(b"/") + where + self._segment + path.removeprefix(file)
        url = request.url.copy_with(raw_path=path)
        sent = httpx.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
        )
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _message_params(destination: Destination, part: Part) -> dict[str, Any]:
    params = {"text": part["text"]} | _where(destination)
    if part.get("edit"):  # the buttons under the message go with it
        params = {"text": part["text"], "chat_id": params["chat_id"], "message_id": _number(str(part["edit"]))}
    if part.get("entities"):
        params["entities"] = part["entities"]
    if part.get("buttons"):
        keyboard = [[{"text": b["text"], "callback_data": b["data"]} for b in row] for row in part["buttons"]]
        params["reply_markup"] = {"inline_keyboard": keyboard}
    return params


def _file_params(destination: Destination, part: Part) -> dict[str, Any]:
    return caption_of(part) | _where(destination)


def _form(params: Mapping[str, Any]) -> dict[str, str]:
    """Parameters beside a file: fields of a form, in which what is no text stands as JSON."""
    safe = wire_safe(params)
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in safe.items()}


def _where(destination: Destination) -> dict[str, Any]:
    params: dict[str, Any] = {"chat_id": _number(destination.chat_id)} | _thread(destination)
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


def _named(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip().rstrip(".")
