"""The way out to Slack: a part is a message with its mark, so that on doubt Slack can be asked for it.

Sources: docs.slack.dev, chat.postMessage, "Message metadata", files.getUploadURLExternal, reactions.add.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import httpx

from app.channels.channel import TOO_LARGE, Absent, Fetched, Later, Part, Refused, SendResult, Sent, Unknown
from app.channels.slack_api import BLOCK_FAULTS, READ_S, UPLOAD_S, Answer, Said, SlackApi, result_of, unheard
from app.channels.slack_commands import as_typed
from app.channels.slack_format import blocks_of, caption, notice, render
from app.channels.slack_mrkdwn import escaped
from app.channels.slack_setup import set_up
from app.channels.slack_socket import Socket, connect
from app.channels.workspace_file import CannotBeSent, Opened, open_part
from app.config import Settings
from app.errors import ConfigError
from app.events import Attachment, Destination
from app.sentences import Sentence

__all__ = ["SlackChannel", "channels", "set_up"]

CHUNK_BYTES = 2**18
FILE_BYTES = 1_000_000_000
"""What Slack takes; source: "Working with files"."""
MARK = "moab_part"
NOT_THERE = {"not_in_channel", "channel_not_found"}
GONE = {"message_not_found", "cant_update_message", "edit_window_closed"}
AT_WORK, FAILED = "eyes", "warning"
QUICK_S, QUIET_S = 5.0, 5.0
NAME_S = 1.0
MAX_NAMES = 2_000
PAGE, MAX_PAGES = 100, 10
NOT_GIVEN = Sentence("Slack does not give the file (status {status}).")
NOT_WHOLE = Sentence("The file did not come whole ({error}).")
SKEW = timedelta(minutes=5)
"""How far Slack's clock and ours may lie apart."""


def channels(settings: Settings) -> "tuple[SlackChannel, ...]":
    """The bot of SLACK_BOT_TOKEN."""
    token = settings.slack_bot_token.get_secret_value() if settings.slack_bot_token else ""
    app_token = settings.slack_app_token.get_secret_value() if settings.slack_app_token else ""
    return (SlackChannel(token, settings.slack_api_base_url, app_token=app_token, workspace=settings.workspace),)


@dataclass(frozen=True)
class About:
    """A person's name, language (a tag such as `de-DE`) and time zone; "" where Slack does not say."""

    name: str = ""
    language: str = ""
    zone: str = ""


class SlackChannel:
    """Sends to Slack as one bot; `close` releases its connections."""

    def __init__(
        self,
        token: str,
        api_base_url: str,
        *,
        app_token: str = "",
        read_s: float = READ_S,
        workspace: Path | None = None,
    ) -> None:
        """`workspace` is where the files of parts lie; without it none can be sent. `app_token` opens sockets."""
        self._api = SlackApi(token, api_base_url, read_s)
        self._app_token = app_token.strip()
        self._workspace = workspace
        self._known: dict[str, About] = {}
        self._at_work: set[tuple[str, str | None]] = set()
        self._quiet_until = self._no_sign_until = 0.0

    @property
    def name(self) -> str:
        return "slack"

    def parts(self, markdown: str) -> list[Part]:
        return render(as_typed(markdown))

    async def send(self, destination: Destination, part: Part) -> SendResult:
        """One attempt. Where Slack does not take the blocks, the same message is asked for once more in its plain form.

        A part is a text (`markdown` and `text`; with `buttons` under it, in the place of the message `edit` or of that
        with the mark in `instead`) or a file of the workspace (`file`, `name`, `caption`).
        """
        if part.get("file"):
            return await self._send_file(destination, part)
        if part.get("instead"):
            begun = await self.find(destination, {"key": part["instead"]["mark"], "since": part["instead"]["since"]})
            if isinstance(begun, Later):
                return begun
            if isinstance(begun, Sent):
                part = {**part, "edit": begun.receipt["messageId"]}
            elif part.get("only_instead"):
                return Sent({"absent": True})
        said = await self._post(destination, part, plain=False)
        if isinstance(said, Answer) and said.error in BLOCK_FAULTS:
            said = await self._post(destination, part, plain=True)
        if isinstance(said, Answer) and said.error in GONE and part.get("preview"):
            part = {name: value for name, value in part.items() if name != "edit"}  # somebody has deleted the preview
            said = await self._post(destination, part, plain=False)
        if isinstance(said, Answer) and said.error in NOT_THERE and destination.reply_url:
            return await self._reply(destination.reply_url, part)
        body = said.body if isinstance(said, Answer) else {}
        return result_of(said, {"messageId": body.get("ts"), "chatId": body.get("channel")})

    async def _post(self, destination: Destination, part: Part, *, plain: bool) -> Said:
        params: dict[str, Any] = {"channel": destination.chat_id, "text": notice(part)}
        params["blocks"] = blocks_of(part, plain=plain)
        if part.get("key") and (part.get("instead") or not part.get("edit")):
            params["metadata"] = {"event_type": MARK, "event_payload": {"key": part["key"]}}
        if part.get("edit"):  # the buttons under the message go with it
            return await self._api.call("chat.update", ts=str(part["edit"]), **params)
        params |= {"thread_ts": destination.thread_id, "unfurl_links": False, "unfurl_media": False}
        return await self._api.call("chat.postMessage", **params)

    async def _reply(self, url: str, part: Part) -> SendResult:
        """Answer a slash command where the bot is no member: only who gave it sees that, and only for half an hour.

        Nobody can look for it there, and to see it twice is better than not at all.
        """
        if not self._is_slacks(url):
            return Refused("The address for the answer does not lie at Slack.")
        body = {"response_type": "ephemeral", "text": notice(part), "blocks": blocks_of(part, plain=True)}
        said = await self._api.request("POST", url, token="", json=body)
        if not isinstance(said, Answer):
            return Later(None, said.reason)
        if said.status == httpx.codes.OK:
            return Sent({"ephemeral": True})
        return Later(said.wait_s, said.reason) if said.is_busy or said.is_doubtful else Refused(said.reason)

    async def whisper(self, url: str, text: str) -> bool:
        """Say `text` to who has just pressed a button or given a command, at the address that Slack gave for that.

        Nobody else sees it, and the message with the button stays as it is. Best effort: false if it could not.
        """
        if not self._is_slacks(url):
            return False
        body = {"response_type": "ephemeral", "replace_original": False, "text": escaped(text)}
        said = await self._api.request("POST", url, QUICK_S, token="", json=body)
        return isinstance(said, Answer) and said.status == httpx.codes.OK

    async def find(self, destination: Destination, part: Part) -> Sent | Absent | Later | Unknown:
        """Look through what was said in the thread or chat since the part was made, for its mark.

        An edit may be made twice. A file bears no mark: one of the bot's with its name is taken for it.
        """
        if part.get("edit"):
            return Absent()
        cursor, since = "", _stamp(str((part.get("instead") or part).get("since") or ""))
        me = await self._user() if part.get("file") else ""
        for _ in range(MAX_PAGES):
            said = await self._history(destination, since, cursor)
            if not (isinstance(said, Answer) and said.ok):
                return unheard(said)
            found = next((message for message in said.body.get("messages", ()) if _is_part(message, part, me)), None)
            if found is not None:
                return Sent({"messageId": found.get("ts"), "chatId": destination.chat_id, "found": True})
            cursor = str((said.body.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                return Absent()
        return Unknown("There was too much said since to look through.")

    async def _user(self) -> str:
        said = await self._api.call("auth.test")
        return str(said.body.get("user_id") or "") if isinstance(said, Answer) else ""

    async def _history(self, destination: Destination, since: str, cursor: str) -> Said:
        page: dict[str, Any] = {"limit": PAGE, "include_all_metadata": True, "oldest": since, "cursor": cursor or None}
        if destination.thread_id:
            return await self._api.call(
                "conversations.replies", channel=destination.chat_id, ts=destination.thread_id, **page
            )
        return await self._api.call("conversations.history", channel=destination.chat_id, **page)

    async def _send_file(self, destination: Destination, part: Part) -> SendResult:
        try:
            opened = await asyncio.to_thread(open_part, self._workspace, part, FILE_BYTES, "Slack")
        except CannotBeSent as error:
            return Refused(str(error))
        with opened.file:
            return await self._upload(destination, part, opened)

    async def _upload(self, destination: Destination, part: Part, opened: Opened) -> SendResult:
        """Three requests; nobody sees anything before the last one, so only there can doubt arise."""
        place = await self._api.call("files.getUploadURLExternal", filename=opened.name, length=opened.size)
        if not (isinstance(place, Answer) and place.ok):
            return _not_yet(place)
        file_id, url = str(place.body.get("file_id")), str(place.body.get("upload_url"))
        put = await self._api.request("POST", url, UPLOAD_S, token="", files={"file": (opened.name, opened.file)})
        if not isinstance(put, Answer) or put.status != httpx.codes.OK:
            return _not_yet(put)
        done = await self._api.call(
            "files.completeUploadExternal",
            files=[{"id": file_id, "title": opened.name}],
            channel_id=destination.chat_id,
            thread_ts=destination.thread_id,
            initial_comment=caption(str(part.get("caption") or "")) or None,
        )
        return result_of(done, {"fileId": file_id, "chatId": destination.chat_id})

    async def acknowledge(self, destination: Destination) -> bool | Later:
        """Eyes at the message; they stay, so that to renew them asks for nothing."""
        message, now = (destination.chat_id, destination.message_id), asyncio.get_running_loop().time()
        if message in self._at_work:
            return True
        if now < self._no_sign_until:  # this is asked every few seconds, and Slack would only count it
            return Later(self._no_sign_until - now, "Slack has asked to wait.")
        shown = await self._react("reactions.add", AT_WORK, destination, "already_reacted")
        if isinstance(shown, Later):
            self._no_sign_until = now + (shown.after_s or 0.0)
        elif shown:
            self._at_work.add(message)
        return shown

    async def conclude(self, destination: Destination, ok: bool) -> bool | Later:
        """The eyes go; a sign of warning comes where the turn failed."""
        self._at_work.discard((destination.chat_id, destination.message_id))
        gone = await self._react("reactions.remove", AT_WORK, destination, "no_reaction")
        if ok or gone is not True:
            return gone
        return await self._react("reactions.add", FAILED, destination, "already_reacted")

    async def _react(self, method: str, sign: str, destination: Destination, fine: str) -> bool | Later:
        """Whether the sign is as it is to be; Later where it may still become so: each of these may be asked twice."""
        if not destination.message_id:
            return False
        said = await self._api.call(
            method, QUICK_S, channel=destination.chat_id, timestamp=destination.message_id, name=sign
        )
        if not isinstance(said, Answer):
            return Later(None, said.reason)
        if said.is_busy or said.is_doubtful:
            return Later(said.wait_s, said.reason)
        return said.ok or said.error == fine

    @property
    def finds_previews(self) -> bool:
        return True

    async def preview(self, destination: Destination, text: str, shown: str | None, mark: str = "") -> str | None:
        """The first message of the answer so far; what goes beyond it is seen when it is whole.

        Where Slack asks to wait nothing more is shown for as long: the final text must not wait for previews.
        """
        parts, now = render(text), asyncio.get_running_loop().time()
        if not parts or now < self._quiet_until:
            return shown
        part = dict(parts[0]) | ({"edit": shown} if shown else {"key": mark})
        said = await self._post(destination, part, plain=False)
        if isinstance(said, Answer) and said.is_busy:
            self._quiet_until = now + (said.wait_s or QUIET_S)
        return str(said.body["ts"]) if isinstance(said, Answer) and said.ok and said.body.get("ts") else shown

    async def fetch(self, attachment: Attachment, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        said = await self._api.call("files.info", file=attachment.ref or "")
        if not isinstance(said, Answer) or said.is_busy or said.is_doubtful:
            return Later(said.wait_s if isinstance(said, Answer) else None, said.reason)
        about = said.body.get("file") or {}
        url = str(about.get("url_private_download") or about.get("url_private") or "")
        if not said.ok or not url:
            return Refused(said.reason if not said.ok else Sentence("Slack gives no address for the file."))
        if not self._is_slacks(url):
            return Refused(Sentence("The file does not lie at Slack."))
        return await self._download(url, to, limit_bytes)

    def _is_slacks(self, url: str) -> bool:
        """Whether an address may be sent the token."""
        try:
            host, base = httpx.URL(url), self._api.base
        except httpx.InvalidURL:
            return False
        of_slack = host.scheme == "https" and host.host.endswith((".slack.com", ".slack-gov.com"))
        return of_slack or (host.scheme, host.host, host.port) == (base.scheme, base.host, base.port)

    async def _download(self, url: str, to: Path, limit_bytes: int) -> Fetched | Later | Refused:
        size, asking = (
            0,
            self._api.http.stream("GET", url, headers=self._api.authorization(), timeout=self._api.patience(UPLOAD_S)),
        )
        try:
            with to.open("wb") as file:
                async with asking as response:
                    if response.status_code >= 500 or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
                        answer = Answer(response.status_code, {}, response.headers)
                        return Later(answer.wait_s, answer.reason)
                    if response.status_code != httpx.codes.OK:  # such as a page to log in at, without files:read
                        return Refused(NOT_GIVEN.format(status=response.status_code))
                    async for chunk in response.aiter_bytes(CHUNK_BYTES):
                        size += len(chunk)
                        if size > limit_bytes:
                            return Refused(TOO_LARGE.format(limit=limit_bytes))
                        await asyncio.to_thread(file.write, chunk)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = self._api.safe(NOT_WHOLE.format(error=type(error).__name__))
            return Later(None, reason, timed_out=isinstance(error, httpx.TimeoutException))
        return Fetched(size)

    async def about(self, user_id: str) -> About:
        """What Slack tells of a person within a second; asked once."""
        if user_id not in self._known:
            try:
                async with asyncio.timeout(NAME_S):
                    # Also where Slack cannot be connected: somebody waits for an answer.
                    said = await self._api.call("users.info", user=user_id, include_locale=True)
            except TimeoutError:
                return About()
            if not (isinstance(said, Answer) and said.ok):
                return About()
            user = said.body.get("user") or {}
            profile = user.get("profile") or {}
            name = profile.get("display_name") or profile.get("real_name") or user.get("name") or ""
            if len(self._known) >= MAX_NAMES:
                self._known.clear()
            zone = str(user.get("tz") or "")
            self._known[user_id] = About(str(name), str(user.get("locale") or ""), zone if _is_zone(zone) else "")
        return self._known[user_id]

    @asynccontextmanager
    async def open_socket(self) -> AsyncIterator[Socket]:
        """A connection of Socket Mode. Raises ConfigError for a token that is refused, ConnectionError for the rest."""
        said = await self._api.call("apps.connections.open", token=self._app_token)
        if not isinstance(said, Answer) or said.is_busy or said.is_doubtful:
            raise ConnectionError(said.reason)
        if not said.ok:
            raise ConfigError(f"SLACK_APP_TOKEN opens no socket: {said.reason}")
        async with connect(str(said.body.get("url"))) as socket:
            yield socket

    async def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """The body of any other method of the Web API; raises ChannelError with Slack's own words."""
        answer = await self._api.result(method, **params)
        return answer.body

    async def close(self) -> None:
        await self._api.close()


def _is_part(message: Mapping[str, Any], part: Part, me: str) -> bool:
    """Whether a message is the part, by its mark; a file by its name, if it comes from the user `me`."""
    if part.get("file"):
        named = str(part.get("name") or Path(str(part["file"])).name)
        files = message.get("files") or ()
        return bool(me) and message.get("user") == me and any(file.get("name") == named for file in files)
    metadata = message.get("metadata") or {}
    key = (metadata.get("event_payload") or {}).get("key")
    return metadata.get("event_type") == MARK and key == part.get("key")


def _not_yet(said: Said) -> SendResult:
    """A step before the last: whatever came of it, nobody has seen the file."""
    result = result_of(said, {})
    return Later(None, result.reason) if isinstance(result, Unknown) else _refused(result)


def _refused(result: SendResult) -> SendResult:
    return Refused("The upload was not taken.") if isinstance(result, Sent) else result


def _stamp(since: str) -> str:
    """A moment as Slack counts it, a little earlier; "0" where it is not known."""
    try:
        return f"{(datetime.fromisoformat(since) - SKEW).timestamp():.6f}"
    except ValueError:
        return "0"


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
