"""The chat without a terminal: lines in, answers out, in order, and an exit code that tells the truth."""

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.cli import chat
from app.cli.chat import chat_in_pipe, printable, session_key
from app.cli.client import ServiceClient
from app.errors import ServiceUnavailable
from tests.unit.front.fake_service import HOLD, Failure, FakeService

SESSION = "terminal:default"


@pytest.fixture
async def client(service: FakeService) -> AsyncIterator[ServiceClient]:
    async with ServiceClient(service.url) as client:
        yield client


async def talk(client: ServiceClient, text: str | bytes, tmp_path: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a chat that reads `text` from a file."""
    source = tmp_path / "lines"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    out, err = io.StringIO(), io.StringIO()
    with source.open("rb") as file:
        code = await chat_in_pipe(client, SESSION, out, err, file.fileno())
    return code, out.getvalue(), err.getvalue()


async def test_each_line_is_answered_in_turn_and_blank_ones_are_skipped(
    client: ServiceClient, service: FakeService, tmp_path: Path
) -> None:
    assert await talk(client, "one\n\n  \r\ntwo\nthree", tmp_path) == (
        0,
        "You said: one\nYou said: two\nYou said: three\n",
        "",
    )
    assert service.texts() == ["one", "two", "three"]
    assert len({post["messageKey"] for post in service.posts}) == 3
    assert {(post["sessionKey"], post["channel"]) for post in service.posts} == {(SESSION, "terminal")}


async def test_no_input_is_no_message(client: ServiceClient, service: FakeService, tmp_path: Path) -> None:
    assert await talk(client, "", tmp_path) == (0, "", "")
    assert service.posts == []


async def test_input_that_is_not_utf8_does_not_end_the_chat(client: ServiceClient, tmp_path: Path) -> None:
    assert await talk(client, b"caf\xe9\nso\n", tmp_path) == (0, "You said: caf\ufffd\nYou said: so\n", "")


async def test_a_failed_turn_is_a_sentence_on_stderr_and_exit_code_1(
    client: ServiceClient, service: FakeService, tmp_path: Path
) -> None:
    service.script["boom"] = Failure("The model is not reachable.")
    assert await talk(client, "boom\nand now?\n", tmp_path) == (
        1,
        "You said: and now?\n",
        "The model is not reachable.\n",
    )


async def test_commands_go_to_the_service_and_quit_does_not(
    client: ServiceClient, service: FakeService, tmp_path: Path
) -> None:
    service.script |= {"/new": "A new conversation.", "/help": "/stop ends it"}
    code, out, _ = await talk(client, "/new\n/help\n/quit\nnever\n", tmp_path)
    assert (code, out) == (0, f"A new conversation.\n{chat.HELP}\n/stop ends it\n")
    assert service.texts() == ["/new", "/help"]


async def test_it_leaves_only_when_the_work_after_the_turn_is_done(
    client: ServiceClient, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "POLL_S", 0.01)
    service.unsettled_looks = 5
    assert (await talk(client, "hello\n", tmp_path))[0] == 0
    assert service.unsettled_looks == 0


async def test_it_does_not_wait_for_ever_for_that_work(
    client: ServiceClient, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "SETTLE_WITHIN_S", 0.05)
    monkeypatch.setattr(chat, "POLL_S", 0.01)
    service.unsettled_looks = 10**9
    code, _, err = await talk(client, "hello\n", tmp_path)
    assert code == 0 and "not finished" in err


async def test_notices_go_to_stderr(client: ServiceClient, service: FakeService, tmp_path: Path) -> None:
    service.script["hold"] = HOLD
    talking = asyncio.create_task(talk(client, "hold\n", tmp_path))
    await asyncio.to_thread(service.wait_for, lambda: service.posts)
    service.notice("May I?")
    await asyncio.to_thread(service.wait_for, lambda: service.cursor_seen == 1)
    os.kill(os.getpid(), signal.SIGTERM)
    code, out, err = await talking
    assert (code, out, err) == (143, "", "May I?\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_turn_first(
    client: ServiceClient, service: FakeService, tmp_path: Path, number: int
) -> None:
    service.script["hold"] = HOLD
    talking = asyncio.create_task(talk(client, "hold\nnever\n", tmp_path))
    await asyncio.to_thread(service.wait_for, lambda: service.posts)
    os.kill(os.getpid(), number)
    assert await talking == (128 + number, "", "")
    assert service.texts() == ["hold", "/stop"]


async def test_a_service_that_restarts_is_asked_again_with_the_same_key(
    client: ServiceClient, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "RECONNECT_S", 0.0)
    monkeypatch.setattr(chat, "ANSWER_WAIT_S", 0.01)
    service.script["hold"] = HOLD
    talking = asyncio.create_task(talk(client, "hold\n", tmp_path))
    await asyncio.to_thread(service.wait_for, lambda: len(service.posts) > 1)
    service.refuse += [(503, {"error": "Shutting down."})] * 2
    await asyncio.to_thread(service.wait_for, lambda: len(service.posts) > 5)
    os.kill(os.getpid(), signal.SIGINT)
    assert (await talking)[0] == 130
    assert len({post["messageKey"] for post in service.posts if post["message"] == "hold"}) == 1


async def test_a_service_that_stays_away_is_one_error(
    client: ServiceClient, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "RECONNECT_S", 0.0)
    conversation = chat.Conversation(client, SESSION)
    service.refuse += [(503, {"error": "Shutting down."})] * (chat.RECONNECT_TRIES + 1)
    with pytest.raises(ServiceUnavailable, match=r"Shutting down\."):
        await conversation.ask("hello")


def test_names_become_session_keys() -> None:
    assert session_key("garden") == "terminal:garden"
    assert session_key("telegram:1:2") == "telegram:1:2"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[2Jb\x9b1mc\r\n\td\u00e9\x07") == "a[2Jb1mc\n\td\u00e9"
