"""A fake Slack Web API: checks what Slack checks, keeps what was said, records every call, fails as scripted.

A script entry: `{"method": "chat.postMessage", "kind": "rate_limit", "times": 2, "retry_after": 3}`; `chat` limits it
to one conversation. The kinds are

- `slow`: an ordinary answer, after `delay_s`;
- `rate_limit`: status 429 with `retry_after`;
- `error`: `ok: false` with `error` and, if given, `needed`;
- `server_error`: status 500, nothing was done; `error_after`: the same, but it was done;
- `drop_before`: the connection is dropped; `drop_after`: Slack did it, the answer is lost; `hang`: it never answers.
"""

import base64
import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.fake_server import FOR_EVER_S, FakeServer, Reply, Request

TOKEN = "xoxb-fake-bot-token"
APP_TOKEN = "xapp-fake-app-token"
TEAM, ME = "T0TEAM0001", "U0MOAB0001"
SCOPES = (
    "app_mentions:read,channels:history,chat:write,commands,files:read,files:write,groups:history,im:history,im:write,"
    "metadata.message:read,mpim:history,reactions:write,users:read"
)
MAX_MARKDOWN, MAX_SECTION, MAX_TEXT, MAX_BLOCKS, MAX_VALUE = 12_000, 3_000, 40_000, 50, 2_000
DONE = ("slow", "error_after", "drop_after", "hang")
SAYING = ("chat.postMessage", "files.completeUploadExternal")


class Refusal(Exception):
    """What the real server answers with `ok: false`."""


class SlackServer(FakeServer):
    """Fake Slack Web API."""

    def __init__(self, *, port: int = 0, log: Path | None = None) -> None:
        super().__init__(port=port, log=log)
        self.scopes = SCOPES
        self.socket_url = ""
        self.locale, self.zone = "en-US", "Europe/Berlin"
        self.gone: set[str] = set()
        self.files: dict[str, bytes] = {}
        self.ephemeral: list[dict[str, Any]] = []
        self._said: dict[str, list[dict[str, Any]]] = {}
        self._uploads: dict[str, dict[str, Any]] = {}
        self._signs: dict[tuple[str, str], set[str]] = {}
        self._number = 0
        self._lock = threading.Lock()

    def said(self, chat: str | None = None) -> list[dict[str, Any]]:
        """The messages Slack took, in order, also those whose answer was lost."""
        with self._lock:
            return [message for name, said in self._said.items() if chat in (None, name) for message in said]

    def signs(self, chat: str, ts: str) -> set[str]:
        """The reactions at a message."""
        return self._signs.get((chat, ts), set())

    def matches(self, entry: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        return all(name not in entry or str(entry[name]) == facts[name] for name in ("method", "chat"))

    def control(self, path: str, params: dict[str, Any]) -> Any:
        if path == "/__socket":
            self.socket_url = params["url"]
            return {"ok": True}
        if path == "/__files":
            self.files |= {name: base64.b64decode(content) for name, content in params["files"].items()}
            return {"ok": True}
        if path == "/__ephemeral":
            return {"messages": self.ephemeral}
        return {"messages": self.said(params.get("chat"))} if path == "/__said" else None

    def answer(self, request: Request) -> Reply:
        if request.path.startswith("/upload/"):
            return self._put(request)
        if request.path.startswith("/files/"):
            return self._file(request)
        if request.path.startswith("/commands/"):
            if (entry := self.take({"method": "response_url", "chat": ""})) is not None:
                return _failure(entry)
            self.ephemeral.append(request.params())
            return Reply(body={"ok": True})
        method = request.path.rpartition("/")[2]
        params = {name: _json(value) for name, value in request.params().items()}
        chat = str(params.get("channel") or params.get("channel_id") or "")
        entry = self.take({"method": method, "chat": chat}) or {"kind": "slow"}
        wanted = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if request.headers.get("authorization") != f"Bearer {wanted}":
            self.record(method, params, "refused", reason="invalid_auth")
            return _failed("invalid_auth")
        if entry["kind"] not in DONE:
            self.record(method, params, entry["kind"])
            return _failure(entry)
        return self._done(method, params, entry)

    def _done(self, method: str, params: dict[str, Any], entry: Mapping[str, Any]) -> Reply:
        delay_s = float(entry.get("delay_s", 0))
        try:
            with self._lock:
                result = self._result(method, params)
        except Refusal as refusal:
            self.record(method, params, "refused", reason=str(refusal))
            return _failed(str(refusal))
        detail = {"message": result["message"]} if method in SAYING else {}
        self.record(method, params, "ok" if entry["kind"] == "slow" else entry["kind"], **detail)
        if entry["kind"] == "error_after":
            return Reply(500, {"ok": False, "error": "internal_error"})
        if entry["kind"] != "slow":
            return Reply(drop=True, delay_s=FOR_EVER_S if entry["kind"] == "hang" else delay_s)
        headers = {"x-oauth-scopes": self.scopes} if method == "auth.test" else {}
        return Reply(body={"ok": True} | result, delay_s=delay_s, headers=headers)

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "chat.postMessage":
                return self._posted(params)
            case "chat.update":
                return self._updated(params)
            case "conversations.history" | "conversations.replies":
                return self._history(method, params)
            case "reactions.add" | "reactions.remove":
                return self._reacted(method, params)
            case "files.getUploadURLExternal":
                return self._place(params)
            case "files.completeUploadExternal":
                return self._completed(params)
            case "files.info":
                return self._about(params)
            case "users.info":
                user = {"id": params["user"], "name": "ada", "profile": {"display_name": "Ada"}, "tz": self.zone}
                return {"user": user | ({"locale": self.locale} if params.get("include_locale") else {})}
            case "auth.test":
                return {"user": "moab", "team": "Example", "user_id": ME, "team_id": TEAM, "bot_id": "B0MOAB0001"}
            case "apps.connections.open":
                return {"url": self.socket_url}
        raise Refusal("unknown_method")

    def _posted(self, params: dict[str, Any]) -> dict[str, Any]:
        chat = str(params.get("channel") or "")
        if not chat or chat in self.gone:
            raise Refusal("channel_not_found")
        check_content(params)
        if params.get("thread_ts") and not re.fullmatch(r"\d+\.\d{6}", str(params["thread_ts"])):
            raise Refusal("invalid_thread_ts")
        message = {name: params[name] for name in ("text", "blocks", "metadata", "thread_ts") if params.get(name)}
        return self._kept(chat, message | {"user": ME, "bot_id": "B0MOAB0001"})

    def _kept(self, chat: str, message: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message |= {"type": "message", "ts": f"{int(time.time())}.{self._number:06d}"}
        self._said.setdefault(chat, []).append(message)
        return {"channel": chat, "ts": message["ts"], "message": message}

    def _updated(self, params: dict[str, Any]) -> dict[str, Any]:
        known = next((m for m in self._said.get(str(params.get("channel")), ()) if m["ts"] == str(params["ts"])), None)
        if known is None:
            raise Refusal("message_not_found")
        check_content(params)
        known["text"], known["blocks"], known["edited"] = params["text"], params.get("blocks") or [], {"user": ME}
        known |= {"metadata": params["metadata"]} if params.get("metadata") else {}
        return {"channel": params["channel"], "ts": known["ts"], "message": known}

    def _history(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The history is told from its end and without threads, a thread from its beginning."""
        said = self._said.get(str(params.get("channel")), [])
        if method == "conversations.replies":
            found = [m for m in said if str(params["ts"]) in (m["ts"], m.get("thread_ts"))]
        else:
            found = [m for m in said if "thread_ts" not in m][::-1]
        found = [m for m in found if float(m["ts"]) > float(params.get("oldest") or 0)]
        start, limit = int(params.get("cursor") or 0), min(int(params.get("limit") or 100), 3)
        page = [dict(m) for m in found[start : start + limit]]
        if not params.get("include_all_metadata"):
            page = [{name: value for name, value in m.items() if name != "metadata"} for m in page]
        after = str(start + limit) if start + limit < len(found) else ""
        return {"messages": page, "response_metadata": {"next_cursor": after}}

    def _reacted(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        signs = self._signs.setdefault((str(params["channel"]), str(params["timestamp"])), set())
        if method == "reactions.add":
            if params["name"] in signs:
                raise Refusal("already_reacted")
            signs.add(params["name"])
        elif params["name"] not in signs:
            raise Refusal("no_reaction")
        else:
            signs.remove(params["name"])
        return {}

    def _place(self, params: dict[str, Any]) -> dict[str, Any]:
        if not params.get("filename") or int(params.get("length") or 0) <= 0:
            raise Refusal("invalid_arguments")
        self._number += 1
        file_id = f"F{self._number:09d}"
        self._uploads[file_id] = {"id": file_id, "name": params["filename"], "length": int(params["length"])}
        return {"file_id": file_id, "upload_url": f"{self.url}/upload/{file_id}"}

    def _put(self, request: Request) -> Reply:
        upload = self._uploads.get(request.path.rpartition("/")[2])
        entry = self.take({"method": "upload", "chat": ""})
        sent = request.params().get("file")
        self.record("upload", {"authorization": request.headers.get("authorization"), "file": sent}, "ok")
        if entry is not None:
            return _failure(entry)
        if upload is None or not isinstance(sent, dict) or sent["size"] != upload["length"]:
            return Reply(400, b"wrong length")
        upload["arrived"] = True
        return Reply(body=b"OK")

    def _completed(self, params: dict[str, Any]) -> dict[str, Any]:
        (wanted,) = params["files"]
        upload = self._uploads.pop(str(wanted["id"]), None)
        if upload is None or not upload.get("arrived"):
            raise Refusal("file_not_found")
        message = {"text": params.get("initial_comment") or "", "files": [{"id": upload["id"], "name": upload["name"]}]}
        if params.get("thread_ts"):
            message["thread_ts"] = params["thread_ts"]
        kept = self._kept(str(params["channel_id"]), message | {"user": ME})
        return {"files": [{"id": upload["id"]}], "message": kept["message"]}

    def _about(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("file") not in self.files:
            raise Refusal("file_not_found")
        return {"file": {"id": params["file"], "url_private_download": f"{self.url}/files/{params['file']}"}}

    def _file(self, request: Request) -> Reply:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(302, b"", headers={"location": f"{self.url}/login"})
        entry = self.take({"method": "file", "chat": ""})
        if entry is not None:
            return _failure(entry)
        return Reply(body=self.files[request.path.rpartition("/")[2]])


def check_content(params: Mapping[str, Any]) -> None:
    """Raises Refusal for a message that Slack would not take."""
    blocks = params.get("blocks") or []
    if not blocks and not str(params.get("text") or "").strip():
        raise Refusal("no_text")
    if len(str(params.get("text") or "")) > MAX_TEXT:
        raise Refusal("msg_too_long")
    if len(blocks) > MAX_BLOCKS:
        raise Refusal("invalid_blocks")
    markdown = sum(len(block["text"]) for block in blocks if block["type"] == "markdown")
    if markdown > MAX_MARKDOWN:
        raise Refusal("msg_blocks_too_long")
    for block in blocks:
        if block["type"] == "section" and not 1 <= len(block["text"]["text"]) <= MAX_SECTION:
            raise Refusal("invalid_blocks")
    buttons = [element for block in blocks if block["type"] == "actions" for element in block["elements"]]
    if len({button["action_id"] for button in buttons}) != len(buttons):
        raise Refusal("invalid_blocks")
    if any(not button["text"]["text"] or len(button["text"]["text"]) > 75 for button in buttons):
        raise Refusal("invalid_blocks")
    if any(not 1 <= len(button["value"]) <= MAX_VALUE for button in buttons):
        raise Refusal("invalid_blocks")


def _json(value: Any) -> Any:
    """A field of a form: JSON where it is some, else the text."""
    if not isinstance(value, str) or not value.startswith(("{", "[", "true", "false")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _failed(error: str) -> Reply:
    return Reply(body={"ok": False, "error": error})


def _failure(entry: Mapping[str, Any]) -> Reply:
    match entry["kind"]:
        case "rate_limit":
            headers = {"retry-after": str(entry.get("retry_after", 1))}
            return Reply(429, {"ok": False, "error": "ratelimited"}, headers=headers)
        case "error":
            needed = {"needed": entry["needed"]} if "needed" in entry else {}
            return Reply(body={"ok": False, "error": entry["error"]} | needed)
        case "drop_before":
            return Reply(drop=True, delay_s=float(entry.get("delay_s", 0)))
    return Reply(500, {"ok": False, "error": "internal_error"} if entry.get("json") else b"<html>500</html>")


if __name__ == "__main__":
    from tests.fakes.process import serve

    serve(SlackServer)
