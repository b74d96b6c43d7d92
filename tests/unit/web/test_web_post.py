"""The way in over HTTP: what is refused says why, what is accepted is stored once and answered."""

import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from fastapi import FastAPI

from app.clock import ManualClock
from app.errors import BadInput, ServiceUnavailable
from app.events import CommandReceived, MessageReceived
from app.web.api import explain_errors
from webhooks.http import MAX_BODY_BYTES, http_router, parse, to_event
from webhooks.http_files import Box

LIMIT_BYTES = 10_000


class Way:
    """A service behind the route: keeps what was accepted, answers what it was told to."""

    def __init__(self, workspace: Path) -> None:
        self.box = Box(workspace, ManualClock(), ZoneInfo("UTC"), LIMIT_BYTES)
        self.events: list[MessageReceived | CommandReceived] = []
        self.waited: list[float] = []
        self.answer: dict[str, Any] = {"status": "answered", "turnId": "T", "reply": "Hi."}
        self.broken = False
        app = FastAPI()
        explain_errors(app)
        app.include_router(http_router(self._accept, self._wait, lambda: "new-key", self.box))
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")

    async def _accept(self, event: MessageReceived | CommandReceived) -> None:
        if self.broken:
            raise ServiceUnavailable("Not now.")
        self.events.append(event)

    async def _wait(self, event: MessageReceived | CommandReceived, seconds: float) -> dict[str, Any]:
        self.waited.append(seconds)
        return self.answer

    async def post(self, body: Any = None, query: str = "", **options: Any) -> httpx.Response:
        given = {"json": body} if body is not None else {}
        async with self.http:
            return await self.http.post(f"/api/messages{query}", **given | options)


@pytest.fixture
def way(tmp_path: Path) -> Way:
    return Way(tmp_path)


async def test_a_message_is_accepted_with_its_ids(way: Way) -> None:
    answer = await way.post({"message": "hello"})
    assert answer.status_code == 202
    assert answer.json() == {
        "messageKey": "new-key",
        "sessionKey": "http:default",
        "eventId": "http:http:default:new-key:first",
        "status": "accepted",
    }
    (event,) = way.events
    assert isinstance(event, MessageReceived)
    assert (event.message, event.channel, event.destination.chat_id, event.steers) == (
        "hello",
        "http",
        "http:default",
        True,
    )


async def test_a_clients_key_is_its_own_within_one_session(way: Way) -> None:
    """Two programs that count from one do not lose each other's messages, and nobody can take a platform's key."""
    answer = await way.post({"message": "hello", "messageKey": "1", "sessionKey": "a"})
    assert (answer.json()["messageKey"], way.events[0].message_key) == ("1", "http:a:1")
    assert to_event(parse(b'{"message": "x", "sessionKey": "b"}'), "http:b:1").message_key != way.events[0].message_key


async def test_a_line_with_a_slash_is_a_command(way: Way) -> None:
    await way.post({"message": "/stop", "channel": "terminal", "sessionKey": "terminal:a"})
    assert isinstance(way.events[0], CommandReceived) and way.events[0].channel == "terminal"


async def test_waiting_brings_the_reply(way: Way) -> None:
    answer = await way.post({"message": "hello"}, "?wait=60")
    assert answer.status_code == 200 and way.waited == [60.0]
    assert (answer.json()["status"], answer.json()["reply"], answer.json()["turnId"]) == ("answered", "Hi.", "T")


async def test_waiting_in_vain_is_accepted(way: Way) -> None:
    way.answer = {"status": "pending", "turnId": None, "reply": None}
    assert (await way.post({"message": "hello"}, "?wait=1")).status_code == 202


async def test_a_service_that_cannot_store_says_so(way: Way) -> None:
    way.broken = True
    answer = await way.post({"message": "hello"})
    assert (answer.status_code, answer.json()) == (503, {"error": "Not now."})


FORM = 'Accepted: {"message": "text"'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "The message is blank."),
        ({"message": ""}, "The message is blank."),
        ({"message": " \n"}, "The message is blank."),
        ({"message": 5}, "message: Input should be a valid string"),
        ({"message": "x" * 200_001}, "message: String should have at most 200000 characters"),
        ({"message": "x", "text": "y"}, "text: Extra inputs are not permitted"),
        ({"message": "x", "sessionKey": ""}, "sessionKey: String should have at least 1 character"),
        ({"message": "x", "sessionKey": "a b"}, "sessionKey: String should match pattern"),
        ({"message": "x", "sessionKey": "a/../b"}, "sessionKey: String should match pattern"),
        ({"message": "x", "sessionKey": "x" * 201}, "sessionKey: String should have at most 200 characters"),
        ({"message": "x", "channel": "telegram"}, "channel: String should match pattern"),
        ({"message": "x", "messageKey": ""}, "messageKey: String should have at least 1 character"),
        ({"message": "x", "sender": "me"}, "sender: "),
        ([], "body: Input should be an object"),
        ("text", "body: Input should be an object"),
    ],
)
async def test_what_does_not_fit_is_named_with_what_does(way: Way, body: Any, said: str) -> None:
    answer = await way.post(body)
    assert answer.status_code == 400 and way.events == []
    assert said in answer.json()["error"]
    if "blank" not in said:
        assert FORM in answer.json()["error"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"message": "\xff"}', b"[" * 100_000, b'"\\ud800"'])
async def test_what_is_no_json_is_refused(way: Way, content: bytes) -> None:
    answer = await way.post(content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and "The message does not fit: body: " in answer.json()["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_form_of_a_page_is_refused(way: Way, kind: str) -> None:
    """A page may post a form across origins without asking; it may not post JSON."""
    answer = await way.post(content=b'{"message": "x"}', headers={"content-type": kind})
    assert (answer.status_code, answer.json()) == (400, {"error": "The content type must be application/json."})


async def test_json_with_a_charset_is_json(way: Way) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    assert (await way.post(content='{"message": "ü"}'.encode(), headers=headers)).status_code == 202


async def test_a_body_without_end_is_refused(way: Way) -> None:
    limit = MAX_BODY_BYTES + way.box.body_bytes
    body = b'{"message": "' + b"x" * limit + b'"}'
    answer = await way.post(content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and f"larger than {limit} bytes" in answer.json()["error"]


@pytest.mark.parametrize("wait", ["-1", "601", "x", "nan", "inf"])
async def test_a_wait_out_of_bounds_is_refused(way: Way, wait: str) -> None:
    assert (await way.post({"message": "hello"}, f"?wait={wait}")).status_code == 422
    assert way.events == []


def test_parsing_is_pure_and_names_the_field() -> None:
    with pytest.raises(BadInput, match="sessionKey"):
        parse(b'{"message": "x", "sessionKey": "\\u0000"}')
    posted = parse(b'{"message": "x", "sender": {"id": 5, "name": "Ann"}}')
    assert posted.sender is not None and posted.sender.id == "5"


def posted_file(**changes: Any) -> dict[str, Any]:
    return {"kind": "voice", "name": "note.ogg", "mime": "audio/ogg", "data": "T2dnUw=="} | changes


async def test_a_file_in_the_body_lies_in_the_inbox_once(way: Way, tmp_path: Path) -> None:
    async with way.http:
        for _ in range(2):
            body = {"attachments": [posted_file(), posted_file(name="../../x y.ogg")], "messageKey": "1"}
            assert (await way.http.post("/api/messages", json=body)).status_code == 202
    event = way.events[0]
    assert isinstance(event, MessageReceived) and event.message == ""
    assert [(one.kind, one.name, one.mime, one.size) for one in event.attachments] == [
        ("voice", "note.ogg", "audio/ogg", 4),
        ("voice", "../../x y.ogg", "audio/ogg", 4),
    ]
    paths = [str(one.path) for one in event.attachments]
    assert all((tmp_path / path).read_bytes() == b"OggS" for path in paths)
    assert [path.rpartition("-")[2] for path in paths] == ["note.ogg", "x_y.ogg"]
    assert len(os.listdir(tmp_path / "inbox/2026-01-05")) == 2
    assert paths[0].startswith("inbox/2026-01-05/")


async def test_a_file_of_the_workspace_is_named_by_its_path(way: Way, tmp_path: Path) -> None:
    (tmp_path / "talk.mp3").write_bytes(b"ID3")
    await way.post({"message": "listen", "attachments": [{"kind": "audio", "path": "talk.mp3"}]})
    assert isinstance(way.events[0], MessageReceived)
    assert [(one.path, one.size) for one in way.events[0].attachments] == [("talk.mp3", 3)]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (posted_file(data="no base64!"), "attachments.0.data is not base64"),
        (posted_file(data=""), "attachments.0.data has 0 bytes; accepted: 1 to 10000"),
        (posted_file(data="QUFB" * 4_000), "attachments.0.data has 12000 bytes; accepted: 1 to 10000"),
        (posted_file(path="talk.mp3"), "give one of data and path"),
        ({"kind": "voice"}, "give one of data and path"),
        ({"path": "../secret"}, "attachments.0.path '../secret' leads outside the workspace"),
        ({"path": "link/passwd"}, "attachments.0.path 'link/passwd' leads outside the workspace"),
        ({"path": "missing"}, "attachments.0.path 'missing' is no file"),
        (posted_file(kind="smell"), "attachments.0.kind: Input should be 'voice'"),
    ],
)
async def test_a_file_that_cannot_be_taken_is_named(way: Way, tmp_path: Path, file: Any, said: str) -> None:
    (tmp_path / "link").symlink_to("/etc")
    answer = await way.post({"message": "x", "attachments": [file]})
    assert answer.status_code == 400 and said in answer.json()["error"], answer.json()
    assert way.events == []
