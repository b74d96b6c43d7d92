"""Requests and questions over Telegram, killed while they wait and after they are decided: done once, asked once."""

import itertools
from typing import Any

import pytest

from app.sessions.calls import MAY_HAVE_HAPPENED
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.stage import Calls, Chat

REPLY = "It is done."
QUESTION = {"question": "Which colour?", "choices": ["red", "light blue"]}
NUMBERS = itertools.count(1)


def script(service: Service, chat: Chat, name: str, arguments: dict[str, Any]) -> None:
    call = {"tool_calls": [{"name": name, "arguments": arguments}]}
    service.stage.script(chat.tag, {"text": REPLY, "when": {"has_result_of": name}}, call)


def prompts(service: Service, chat: Chat) -> list[dict[str, Any]]:
    """The messages with buttons that Telegram took."""
    attempts = [call for call in service.stage.attempts(chat) if "reply_markup" in call["params"]]
    return [call for call in attempts if "message" in call["detail"]]


def prompt(service: Service, chat: Chat) -> dict[str, Any]:
    """The prompt, once its receipt is noted too: without it nobody could say whether it arrived."""
    noted = "SELECT id FROM deliveries WHERE kind = 'prompt' AND state = 'sent'"
    return until(lambda: service.rows(noted) and prompts(service, chat), "the prompt")[0]


def press(service: Service, chat: Chat, asked: dict[str, Any], button: int, user: int = 7) -> int:
    """Press a button of a prompt; the status of the update."""
    keyboard = asked["params"]["reply_markup"]["inline_keyboard"]
    data = [shown["callback_data"] for row in keyboard for shown in row][button]
    query = {
        "id": f"{chat.id}{next(NUMBERS)}",
        "from": {"id": user, "is_bot": False, "first_name": "Ada"},
        "message": {"message_id": asked["detail"]["message"]["message_id"], "chat": {"id": chat.id, "type": "private"}},
        "data": data,
    }
    return service.update({"update_id": 9_000_000 + next(NUMBERS), "callback_query": query})


def edits(service: Service, chat: Chat) -> list[str]:
    calls = Calls(service.stage.telegram, "editMessageText")
    texts = [call["params"]["text"] for call in calls() if call["params"]["chat_id"] == chat.id]
    calls.close()
    return texts


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service(TOOL_POLICY="bash=ask")


def test_killed_while_it_waits(service: Service) -> None:
    chat = service.stage.chat()
    script(service, chat, "bash", {"command": "echo line >> lines.txt"})
    service.start()
    service.say(chat, "go")
    asked = prompt(service, chat)
    assert "echo line >> lines.txt" in asked["params"]["text"] and service.workspace("lines.txt") == ""

    service.kill()
    service.start()
    assert press(service, chat, asked, 0, user=8) == 200
    refused = until(lambda: service.stage.replies(chat)[1:], "the refusal of a stranger")
    assert press(service, chat, asked, 0) == 200
    service.settle()

    assert refused[0].startswith("Only who asked for it or an admin may decide on")
    assert service.workspace("lines.txt") == "line\n"
    assert service.stage.replies(chat)[2:] == [REPLY] and len(prompts(service, chat)) == 1
    (edit,) = edits(service, chat)
    assert "May I run bash?" in edit and edit.endswith("was approved by Ada.")
    check_transcripts(service)


@pytest.mark.parametrize(
    "failpoint", ["approval.asked", "approval.prompted", "approval.decided", "tool.started", "tool.recorded"]
)
def test_killed_at(service: Service, failpoint: str) -> None:
    """The first two come by themselves, the others with the button; the command never runs twice."""
    chat = service.stage.chat()
    script(service, chat, "bash", {"command": "echo line >> lines.txt"})
    service.start(failpoint)
    service.say(chat, "go")
    if failpoint in ("approval.asked", "approval.prompted"):
        assert service.ended() == -9
        service.start()
    asked = prompt(service, chat)
    press(service, chat, asked, 0)
    if failpoint not in ("approval.asked", "approval.prompted"):
        assert service.ended() == -9
        service.start()
    service.settle()

    assert len(prompts(service, chat)) == 1 and service.stage.replies(chat).count(REPLY) == 1
    if failpoint == "tool.started":
        assert service.rows("SELECT result FROM calls") == [{"result": MAY_HAVE_HAPPENED}]
        assert service.workspace("lines.txt") in ("", "line\n")
    else:
        assert service.workspace("lines.txt") == "line\n"
    assert service.rows("SELECT state FROM approvals") == [{"state": "used"}]
    check_transcripts(service)


@pytest.mark.parametrize("lossy", [False, True], ids=["all starts", "starts are lost"])
def test_a_newer_message_and_then_the_button(make_service: MakeService, lossy: bool) -> None:
    """Row 9: the tap explains itself, and the prompt says so before."""
    service = make_service(lossy=lossy, TOOL_POLICY="bash=ask").start()
    chat = service.stage.chat()
    bash = {"tool_calls": [{"name": "bash", "arguments": {"command": "echo line >> lines.txt"}}]}
    service.stage.script(chat.tag, {"text": "Fine, not.", "when": {"last_user": "never mind"}}, bash)
    service.say(chat, "go")
    asked = prompt(service, chat)
    service.say(chat, "never mind")
    service.settle()
    assert press(service, chat, asked, 0) == 200
    until(lambda: len(service.stage.replies(chat)) == 3, "the explanation")
    service.settle()

    _, reply, explanation = service.stage.replies(chat)
    assert reply == "Fine, not." and explanation.endswith("is closed: something newer took its place. It was not done.")
    assert service.workspace("lines.txt") == "" and edits(service, chat)[0].endswith(explanation)
    check_transcripts(service)


@pytest.mark.parametrize("how", ["button", "number", "killed at the answer"])
def test_a_question(service: Service, how: str) -> None:
    chat = service.stage.chat()
    script(service, chat, "ask_user", QUESTION)
    service.start("deposit.committed:2" if how.startswith("killed") else "")
    service.say(chat, "paint it")
    asked = prompt(service, chat)
    update = chat.update("2" if how == "number" else "light")
    update["message"]["text"] = update["message"]["text"].partition(" ")[0]
    if how == "button":
        service.kill()
        service.start()
        assert press(service, chat, asked, 1) == 200
    elif how == "number":
        assert service.update(update) == 200
    else:
        assert service.update(update) == 0 and service.ended() == -9
        service.start()
        assert service.update(update) == 200
    service.settle()
    check_question(service, chat)


def check_question(service: Service, chat: Chat) -> None:
    assert service.stage.replies(chat)[1:] == [REPLY] and len(prompts(service, chat)) == 1
    last = service.stage.asked(chat.tag)[-1]["messages"]
    assert [m["content"] for m in last if m["role"] == "tool"] == ["light blue"]
    assert service.rows("SELECT state FROM turns") == [{"state": "finished"}]
    check_transcripts(service)
