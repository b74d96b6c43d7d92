"""SIGTERM: in time, whatever is going on; and what was interrupted is taken up, reported or offered, never lost."""

import threading
import time
from datetime import UTC, datetime, timedelta

from app.agent.loop import OFFER
from app.sessions.calls import MAY_HAVE_HAPPENED
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import until
from tests.acceptance.test_steering import bash, group_lives, until_written

STOPS_WITHIN_S = 12.0


def test_stops_in_time_with_a_tool_in_flight_and_somebody_listening(make_service: MakeService) -> None:
    service = make_service().start(fresh=True)
    chat = service.stage.chat()
    service.stage.script(
        chat.tag, {"text": "I looked", "when": {"last_role": "tool"}}, bash("echo $$ > group; sleep 60")
    )
    service.say(chat, "work")
    group = int(until_written(service, "group"))
    path = f"/api/sessions/{chat.session_key}/feed"
    listening = threading.Thread(target=lambda: service.get(path, after=0, wait=15), daemon=True)
    listening.start()
    until(lambda: service.get("/health").is_success, "an answer beside the long poll")

    began = time.monotonic()
    assert service.terminate() == 0
    assert time.monotonic() - began < STOPS_WITHIN_S
    assert not group_lives(group)
    listening.join(5)
    assert not (service.home / "service.json").exists()

    service.start()
    service.settle()
    assert service.stage.replies(chat) == ["I looked"]
    last = service.stage.asked(chat.tag)[-1]["messages"]
    assert [m["content"] for m in last if m["role"] == "tool"] == [MAY_HAVE_HAPPENED]
    check_transcripts(service)


def test_a_call_in_flight_may_end(make_service: MakeService) -> None:
    service = make_service().start()
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"text": "I was quick", "delay_s": 0.5})

    service.say(chat, "hello")
    until(lambda: service.stage.asked(chat.tag), "the question to the model")
    assert service.terminate() == 0
    service.start()
    service.settle()

    assert service.stage.replies(chat) == ["I was quick"]
    assert len(service.stage.asked(chat.tag)) == 1, "the answer was waited for and recorded"


def test_a_turn_interrupted_long_ago_is_offered(make_service: MakeService) -> None:
    service = make_service().start("tool.recorded")
    chat = service.stage.chat()
    service.stage.script(
        chat.tag,
        {"text": "gone on", "when": {"last_user": "go on"}},
        {"text": "resumed", "when": {"last_role": "tool"}},
        bash("echo once >> once"),
    )

    service.update(chat.update("work"))
    assert service.ended() == -9
    service.change("UPDATE turns SET seen_at = ?", datetime.now(UTC) - timedelta(minutes=11))
    service.start()
    service.settle()

    assert service.stage.replies(chat) == [OFFER]
    assert len(service.stage.asked(chat.tag)) == 1
    assert service.rows("SELECT state FROM turns") == [{"state": "offered"}]

    service.say(chat, "go on")
    service.settle()
    assert service.stage.replies(chat) == [OFFER, "gone on"]
    assert service.workspace("once") == "once\n"
    check_transcripts(service)
