"""A German at Telegram: let in, a command, an approval by its button, and a failure, all in German."""

import re

import pytest

from app.agent.models.llm import Trouble
from app.agent.recovery import EXPLANATIONS
from app.sentences import ASK_ZONE, HELLO, ZONE_SET, say
from tests.acceptance.conftest import MakeService
from tests.acceptance.service import Service, until
from tests.acceptance.stage import Chat
from tests.acceptance.test_approval import edits, press, prompt, script

CODE = re.compile(r"first admin: (\S+)")


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service(TOOL_POLICY="bash=ask", TELEGRAM_ALLOWED_CHATS="").start()


def write(service: Service, chat: Chat, text: str, number: int) -> None:
    update = chat.update(text, number)
    update["message"] |= {"text": text}
    update["message"]["from"]["language_code"] = "de"
    assert service.update(update) == 200
    service.settle()


def test_everything_that_the_service_says_is_in_german(service: Service) -> None:
    chat = service.stage.chat()
    code = until(lambda: CODE.search(service.errors.read_text()), "the code")[1]
    write(service, chat, code, 1)
    write(service, chat, "Berlin", 2)
    write(service, chat, "/status", 3)
    hello, zone, status = service.stage.replies(chat)
    assert hello == f"{say(HELLO, 'de', name='Ada')}\n\n{say(ASK_ZONE, 'de')}"
    assert zone == say(ZONE_SET, "de", zone="Europe/Berlin")
    assert status.startswith("Modell: ") and "Nachrichten in diesem Gespräch: 0." in status

    service.stage.script(chat.tag, {"fault": "unauthorized", "times": 1})
    write(service, chat, f"und jetzt? {chat.tag}", 4)
    failure = service.stage.replies(chat)[-1]
    assert failure.startswith(say(EXPLANATIONS[Trouble.REJECTED], "de")) and "(Lauf " in failure

    script(service, chat, "bash", {"command": "echo eins > eins.txt"})
    update = chat.update(f"los {chat.tag}", 5)
    update["message"]["from"]["language_code"] = "de"
    assert service.update(update) == 200
    asked = prompt(service, chat)
    assert "Darf ich bash ausführen?" in asked["params"]["text"]
    buttons = [shown["text"] for row in asked["params"]["reply_markup"]["inline_keyboard"] for shown in row]
    assert buttons == ["Erlauben", "Ablehnen"]
    assert press(service, chat, asked, 0) == 200
    service.settle()
    (edit,) = edits(service, chat)
    assert edit.endswith("erlaubt von Ada.")
