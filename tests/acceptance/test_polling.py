"""Messages that are fetched: answered once, also when the process is killed between storing and confirming them."""

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import until


@pytest.mark.parametrize("failpoint", ["deposit.committed", "poll.stored"])
def test_killed_before_it_is_confirmed_a_message_is_answered_once(make_service: MakeService, failpoint: str) -> None:
    service = make_service(TELEGRAM_WEBHOOK_SECRET="")
    chat = service.stage.chat()
    service.stage.telegram.control("/__updates", {"updates": [chat.update("hello")]})

    service.live_until(failpoint)
    service.start()
    until(lambda: service.stage.replies(chat), "the answer")
    service.stage.telegram.control("/__updates", {"updates": [chat.update("and again")]})
    until(lambda: len(service.stage.replies(chat)) > 1, "the second answer")
    service.settle()

    assert service.stage.replies(chat) == [f"You said: {text} {chat.tag}" for text in ("hello", "and again")]
    assert service.get("/webhooks/telegram").status_code == 404
    check_transcripts(service)
