"""An answer that is seen while it is written: one message in the chat that grows, whatever happens in between."""

import itertools
from typing import Any

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.stage import Chat

STORY = " ".join(f"sentence {number} of the story." for number in range(12))
SLOWLY = {"text": STORY, "piece_delay_s": 0.25, "times": 1}
AT_MOST_EVERY_S = 0.8
"""Once a second as the service counts; on its way a request may be held up, so the fake sees them closer together."""


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service(PREVIEW_ANSWERS="true")


def shown(service: Service, chat: Chat) -> list[dict[str, Any]]:
    """What Telegram was asked to show in a chat: messages and changes of them, in order."""
    wanted = ("sendMessage", "editMessageText")
    calls = [call for call in service.stage.telegram.calls() if call["method"] in wanted]
    return [call for call in calls if str(call["params"].get("chat_id")) == str(chat.id)]


def check_one_message(service: Service, chat: Chat) -> None:
    """One message was sent, all else changed that one, and what stands there now is the answer."""
    sent, *edits = shown(service, chat)
    assert sent["method"] == "sendMessage" and edits and {call["method"] for call in edits} == {"editMessageText"}
    assert {call["params"]["message_id"] for call in edits} == {sent["detail"]["message"]["message_id"]}
    assert edits[-1]["params"]["text"] == STORY
    assert all(STORY.startswith(call["params"]["text"]) for call in (sent, *edits))
    assert [row["state"] for row in service.rows("SELECT state FROM deliveries ORDER BY id")] == ["replaced", "sent"]
    check_transcripts(service)


def test_it_grows_in_one_message_at_most_once_a_second_and_the_answer_takes_its_place(service: Service) -> None:
    chat = service.start().stage.chat()
    service.stage.script(chat.tag, SLOWLY)
    service.say(chat, "tell me a story")
    service.settle(60)

    check_one_message(service, chat)
    previews = shown(service, chat)[:-1]
    assert len(previews) >= 3
    gaps = [later["at"] - earlier["at"] for earlier, later in itertools.pairwise(previews)]
    assert min(gaps) >= AT_MOST_EVERY_S
    lengths = [len(call["params"]["text"]) for call in previews]
    assert lengths == sorted(set(lengths))


def test_killed_in_the_middle_of_it_the_next_life_goes_on_in_the_same_message(service: Service) -> None:
    chat = service.start().stage.chat()
    service.stage.script(chat.tag, SLOWLY, SLOWLY)
    service.say(chat, "tell me a story")
    until(lambda: len(shown(service, chat)) >= 2, "a preview that has grown")
    service.kill()
    service.start()
    service.settle(60)
    check_one_message(service, chat)


@pytest.mark.parametrize("failpoint", ["finish.committed", "send.claimed", "send.accepted", "send.recorded"])
def test_killed_while_the_answer_takes_its_place_there_is_still_one(service: Service, failpoint: str) -> None:
    """To change a message twice is harmless, so nobody has to be told that it may have happened."""
    chat = service.start(failpoint).stage.chat()
    service.stage.script(chat.tag, SLOWLY)
    service.say(chat, "tell me a story")
    until(lambda: not service.lives(), "the kill", 60)
    service.start()
    service.settle(60)
    check_one_message(service, chat)


def test_a_preview_that_telegram_refuses_does_not_hold_the_answer_up(service: Service) -> None:
    chat = service.start().stage.chat()
    fault = {"method": "editMessageText", "chat": chat.id, "kind": "rate_limit", "retry_after": 30, "times": 1}
    service.stage.telegram.script(fault)
    service.stage.script(chat.tag, SLOWLY)
    service.say(chat, "tell me a story")
    service.settle(25)
    assert [call["outcome"] for call in shown(service, chat)] == ["ok", "rate_limit", "ok"]
    check_one_message(service, chat)
