"""Who may come in and how: Telegram with its secret, events in the shape of Utah, HTTP; and what never comes out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.sentences import STRANGER
from tests.acceptance.conftest import MakeService
from tests.acceptance.nursery import ROOT
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import MODEL_KEY, Service, until
from tests.acceptance.stage import SECRET
from tests.fakes.telegram_server import TOKEN


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service().start()


def utah_event(chat_id: int, text: str, **more: object) -> dict[str, object]:
    """What a webhook written for Utah sends."""
    return {
        "name": "agent.message.received",
        "data": {
            "message": text,
            "sessionKey": f"telegram-{chat_id}",
            "channel": "telegram",
            "sender": {"id": "7", "name": "Ada", "username": "ada"},
            "destination": {"chatId": str(chat_id), "messageId": "5"},
            "channelMeta": {"chatType": "private"},
        },
        **more,
    }


def test_events_of_utah_are_understood(service: Service) -> None:
    one, other = service.stage.chat(), service.stage.chat()
    keys = json.loads((service.home / "keys.json").read_text())
    path = f"/e/{keys['event_key']}"
    named = utah_event(one.id, f"hello {one.tag}", id="telegram.5")

    answers = [service.post(path, named), service.post(path, named), service.post(path, [utah_event(other.id, "hi")])]
    service.settle()

    assert [answer.status_code for answer in answers] == [200] * 3
    assert all(len(answer.json()["ids"]) == 1 for answer in answers)
    assert service.stage.replies(one) == [f"You said: hello {one.tag}"]
    assert service.stage.replies(other) == ["You said: hi"]
    assert service.post("/e/guessed-key", named).status_code == 401
    check_transcripts(service)


def test_an_event_without_what_it_needs_ends_and_harms_nobody(service: Service) -> None:
    chat = service.stage.chat()
    keys = json.loads((service.home / "keys.json").read_text())

    answer = service.post(f"/e/{keys['event_key']}", {"name": "agent.message.received", "data": {"message": "lost"}})
    service.say(chat, "hello")
    service.settle()

    assert answer.status_code == 200
    assert service.stage.replies(chat) == [f"You said: hello {chat.tag}"]
    failed = service.get("/api/runs", status="Failed").json()["runs"]
    assert {run["function"].removeprefix("moab-") for run in failed} == {"handle-message", "acknowledge"}


def test_strangers_stay_outside(service: Service) -> None:
    chat = service.stage.chat()
    chat.id = 999
    update = chat.update("let me in")

    statuses = [service.update(update, secret) for secret in ("", "wrong", SECRET + "x", SECRET)]

    assert statuses == [403, 403, 403, 200]
    assert service.rows("SELECT * FROM messages") == service.rows("SELECT * FROM turns") == []
    until(lambda: service.stage.replies(chat), "the polite line")
    service.settle()
    assert service.stage.replies(chat) == [STRANGER] and service.stage.typing_signs(chat) == []


def test_odd_texts_pass_every_hop(service: Service) -> None:
    """Half a pair of surrogates, NUL, raw bytes and a very long word: from Telegram, from the model and from a tool."""
    chat = service.stage.chat()
    odd = "half \ud83d pair, nul \x00, whole \U0001f600"
    service.stage.script(
        chat.tag,
        {"text": f"{odd} {' '.join(map(str, range(1200)))}", "when": {"last_role": "tool"}},
        {
            "tool_calls": [
                {"name": "bash", "arguments": {"command": "head -c 3000 /dev/urandom; printf '\\0\\355\\240\\200'"}}
            ]
        },
    )

    service.say(chat, odd)
    service.settle()

    replies = service.stage.replies(chat)
    assert len(replies) == 2 and replies[0].startswith("half ") and "\U0001f600" in replies[0]
    assert replies[-1].endswith(" 1199")
    assert service.rows("SELECT state FROM turns") == [{"state": "finished"}]
    check_transcripts(service)


def test_http_waits_for_the_reply(service: Service) -> None:
    answer = service.post("/api/messages", {"message": "hello", "messageKey": "mine:1"}, wait=20)
    again = service.post("/api/messages", {"message": "hello", "messageKey": "mine:1"}, wait=20)
    command = service.post("/api/messages", {"message": "/status"}, wait=20)
    service.settle()

    assert answer.status_code == again.status_code == 200
    assert answer.json()["reply"] == again.json()["reply"] == "You said: hello"
    assert answer.json()["turnId"] == again.json()["turnId"]
    said = command.json()["reply"]
    assert said.startswith("Model: openai/fake.") and "Messages in this conversation: 2." in said and "idle" in said
    assert service.rows("SELECT count(*) AS n FROM turns") == [{"n": 1}]


def test_secrets_stay_inside(make_service: MakeService) -> None:
    """Neither the log nor a database nor an answer has a token or a key, even when everything goes wrong."""
    service = make_service(LOG_LEVEL="debug").start(fresh=True)
    fine, refused, lost = service.stage.chat(), service.stage.chat(), service.stage.chat()
    service.stage.script(refused.tag, {"fault": "unauthorized"})
    env = {"tool_calls": [{"name": "bash", "arguments": {"command": "env"}}]}
    service.stage.script(fine.tag, {"text": "see", "when": {"last_role": "tool"}}, env)
    for kind in ("unauthorized", "drop_before"):
        service.stage.telegram.script({"method": "sendMessage", "chat": lost.id, "kind": kind})

    for chat in (fine, refused, lost):
        service.say(chat, "hello")
    service.settle()
    runs = service.get("/api/runs", limit=100).json()["runs"]
    paths = ["/health", "/api/runs", "/nothing", *(f"/api/runs/{run['id']}" for run in runs)]
    for chat in (fine, refused, lost):
        paths += [f"/api/sessions/{chat.session_key}/messages", f"/api/sessions/{chat.session_key}/feed?after=0"]
    answers = [service.get(path).text for path in paths]
    assert service.terminate() == 0

    keys = json.loads((service.home / "keys.json").read_text()).values()
    secrets = [TOKEN.partition(":")[2], SECRET, MODEL_KEY, *keys]
    files = [path for path in service.home.rglob("*") if path.is_file() and path.name != "keys.json"]
    databases = {"engine.db"} if os.environ.get("TEST_POSTGRES_URL") else {"moab.db", "engine.db"}
    assert databases <= {path.name for path in files}
    for path in (*files, service.errors):
        assert not found(path.read_bytes().decode(errors="replace"), secrets), path
    for answer in answers:
        assert not found(answer, secrets), answer
    assert (service.home / "keys.json").stat().st_mode & 0o077 == 0


def found(text: str, secrets: list[str]) -> list[str]:
    return [secret for secret in secrets if secret in text]


def test_home_belongs_to_one_process(service: Service, make_service: MakeService, tmp_path: Path) -> None:
    second = service.command(["serve", "--port", "0"]).fresh()

    assert second.wait(20) == 2
    assert "Another Moab runs on" in service.errors.read_text()
    assert service.get("/health").json()["status"] == "ok"


def test_a_file_goes_along_with_a_message_of_the_command_line(service: Service, tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("water the garden")
    given = service.command([]).environment
    command = [sys.executable, "-m", "app.cli", "send", "what is it?", "--wait", "--file", str(tmp_path / "plan.txt")]
    done = subprocess.run(
        command, env=dict(given) | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "what is it?" in done.stdout, done.stderr
    [brought] = (service.home / "workspace" / "inbox").rglob("*plan.txt")
    assert brought.read_text() == "water the garden" and brought.name in done.stdout
