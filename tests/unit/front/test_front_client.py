"""The client against a real local server: what it sends, and how errors become sentences."""

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.cli.client import ServiceClient, find_service
from app.errors import BadInput, NotFound, ServiceUnavailable
from tests.unit.front.fake_service import HOLD, FakeService


@pytest.fixture
async def client(service: FakeService) -> AsyncIterator[ServiceClient]:
    async with ServiceClient(service.url + "/", token="secret") as client:
        yield client


async def test_health_is_read(client: ServiceClient) -> None:
    health = await client.health()
    assert (health.status, health.model, health.engine) == ("ok", "test/model", "embedded")


async def test_a_message_is_accepted_without_wait_and_answered_with_it(
    client: ServiceClient, service: FakeService
) -> None:
    accepted = await client.send("hello", session_key="terminal:a", message_key="k1")
    assert (accepted.status, accepted.message_key, accepted.is_final) == ("accepted", "k1", False)
    answered = await client.send("hello", session_key="terminal:a", message_key="k1", wait=5)
    assert (answered.status, answered.reply, answered.is_final) == ("answered", "You said: hello", True)
    assert service.posts[0] == {
        "message": "hello",
        "sessionKey": "terminal:a",
        "channel": "terminal",
        "messageKey": "k1",
    }


async def test_an_answer_that_does_not_come_in_time_is_pending(client: ServiceClient, service: FakeService) -> None:
    service.script["long"] = HOLD
    answer = await client.send("long", session_key="terminal:a", wait=0.01)
    assert (answer.status, answer.is_final) == ("pending", False)


async def test_the_feed_starts_at_this_moment_and_goes_on_from_its_cursor(
    client: ServiceClient, service: FakeService
) -> None:
    service.notice("old")
    start = await client.feed("terminal:a", after=-1)
    assert start.items == () and start.settled and not start.is_busy
    service.notice("new")
    later = await client.feed("terminal:a", after=start.cursor, wait=5)
    assert [(item.kind, item.text) for item in later.items] == [("notice", "new")]


async def test_a_session_key_is_quoted_and_the_token_is_sent(client: ServiceClient, service: FakeService) -> None:
    await client.feed("a/b c?d", after=-1)
    path, headers = service.requests[-1]
    assert path == ["api", "sessions", "a/b c?d", "feed"]
    assert headers["Authorization"] == "Bearer secret"


async def test_history_of_an_unknown_session_is_empty(client: ServiceClient, service: FakeService) -> None:
    service.refuse.append((404, {"error": "There is no such session."}))
    assert await client.history("terminal:none") == []


@pytest.mark.parametrize(
    ("status", "body", "kind", "sentence"),
    [
        (404, {"error": "There is no such run."}, NotFound, "There is no such run."),
        (400, {"detail": "The text is empty."}, BadInput, "The text is empty."),
        (422, {"detail": [{"loc": ["body", "message"], "msg": "Field required"}]}, BadInput, "body.message: Field"),
        (401, {}, BadInput, "MOAB_API_TOKEN"),
        (500, b"<html>", ServiceUnavailable, "error (500)"),
        (503, {"error": {"message": "Shutting down."}}, ServiceUnavailable, "Shutting down."),
        (200, b"not json", ServiceUnavailable, "error (200)"),
    ],
)
async def test_a_refusal_is_one_plain_sentence(
    client: ServiceClient, service: FakeService, status: int, body: object, kind: type[Exception], sentence: str
) -> None:
    service.refuse.append((status, body))
    with pytest.raises(kind, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        await client.run("R9")


async def test_an_answer_in_another_form_is_a_sentence_too(client: ServiceClient, service: FakeService) -> None:
    service.refuse.append((200, {"cursor": "x"}))
    with pytest.raises(ServiceUnavailable, match="form"):
        await client.feed("terminal:a", after=0)


async def test_a_service_that_is_gone_is_named() -> None:
    url = f"http://127.0.0.1:{_free_port()}"
    async with ServiceClient(url) as client:
        with pytest.raises(ServiceUnavailable, match=url):
            await client.health()


async def test_a_proxy_in_the_environment_is_not_used(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{_free_port()}")
    async with ServiceClient(service.url) as client:
        assert (await client.health()).status == "ok"


async def test_the_running_service_is_found_by_its_note(service: FakeService, tmp_path: Path) -> None:
    assert await find_service(tmp_path / "service.json") == service.url


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"url": 1}', None])
async def test_a_note_that_says_nothing_finds_nothing(tmp_path: Path, note: str | None) -> None:
    if note is not None:
        (tmp_path / "service.json").write_text(note)
    assert await find_service(tmp_path / "service.json") is None


async def test_a_note_left_behind_by_a_dead_service_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "service.json").write_text(json.dumps({"url": f"http://127.0.0.1:{_free_port()}", "pid": 1}))
    assert await find_service(tmp_path / "service.json") is None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
