"""The way out to Telegram: in order, once, as patiently as asked, and honest about what nobody knows."""

import pytest

from app.channels.outbox import VANISHED
from app.sentences import UNKNOWN_NOTICE
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service().start()


def parts(service: Service) -> list[tuple[str, int]]:
    """(state, attempts) of the delivery rows."""
    return [(row["state"], row["attempts"]) for row in service.rows("SELECT state, attempts FROM deliveries")]


def test_typing_sign_comes_first(service: Service) -> None:
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"text": "hello", "delay_s": 0.3})

    service.say(chat, "hello")
    service.settle()

    [sign], [sent] = service.stage.typing_signs(chat), service.stage.attempts(chat)
    assert sign["params"]["action"] == "typing" and sign["at"] < sent["at"] - 0.2


@pytest.mark.parametrize("killed", [False, True], ids=["in one life", "killed while it waits"])
def test_waits_as_long_as_telegram_asks(service: Service, killed: bool) -> None:
    chat = service.stage.chat()
    fault = {"method": "sendMessage", "chat": chat.id, "kind": "rate_limit", "retry_after": 1}
    service.stage.telegram.script(fault)

    service.say(chat, "hello")
    if killed:
        until(lambda: parts(service) == [("pending", 1)], "the note that Telegram asked to wait")
        service.kill()
        service.start()
    service.settle()

    first, second = service.stage.attempts(chat)
    assert (first["outcome"], second["outcome"]) == ("rate_limit", "ok")
    assert second["at"] - first["at"] >= 1
    assert parts(service) == [("sent", 2)]
    check_transcripts(service)


def test_blocked_is_the_end_of_it(service: Service) -> None:
    chat = service.stage.chat()
    service.stage.telegram.script({"method": "sendMessage", "chat": chat.id, "kind": "forbidden", "times": None})

    service.say(chat, "hello")
    service.settle()

    assert len(service.stage.attempts(chat)) == 1
    [row] = service.rows("SELECT state, reason FROM deliveries")
    assert row["state"] == "failed" and "blocked by the user" in row["reason"]
    check_transcripts(service)


def test_a_lost_answer_is_told_and_not_sent_again(service: Service) -> None:
    chat = service.stage.chat()
    service.stage.telegram.script({"method": "sendMessage", "chat": chat.id, "kind": "drop_after", "times": 1})

    service.say(chat, "hello")
    service.settle()

    assert service.stage.replies(chat) == [f"You said: hello {chat.tag}", UNKNOWN_NOTICE]
    assert parts(service) == [("unknown", 1), ("sent", 1)]


def test_killed_at_the_answer_and_at_the_notice_the_person_still_hears_of_it(make_service: MakeService) -> None:
    service = make_service().start("send.claimed:1")
    chat = service.stage.chat()
    service.say(chat, "hello")
    assert service.ended() == -9
    service.live_until("send.claimed:1")
    assert parts(service) == [("unknown", 1), ("sending", 1)]
    service.start().settle()

    assert service.stage.replies(chat) == [UNKNOWN_NOTICE]
    assert parts(service) == [("unknown", 1), ("sent", 2)]


def test_what_is_stuck_is_listed_with_why(make_service: MakeService) -> None:
    """The command names each kind of doubt, and what a part waits for."""
    service = make_service().start("send.claimed:1")
    died, lost, fails, blocked = (service.stage.chat() for _ in range(4))
    service.say(died, "one")
    assert service.ended() == -9
    service.start()
    for chat, kind in ((lost, "drop_after"), (fails, "server_error"), (blocked, "forbidden")):
        times = 1 if kind == "drop_after" else None
        service.stage.telegram.script({"method": "sendMessage", "chat": chat.id, "kind": kind, "times": times})
        service.say(chat, "two")
    stuck = "SELECT id FROM deliveries WHERE reason IS NOT NULL AND state <> 'sending' AND kind = 'reply'"
    until(lambda: len(service.rows(stuck)) == 4, "four parts that are stuck")

    listed = service.run("deliveries")
    assert listed.returncode == 0, listed.stderr
    lines = {line.split()[1]: line for line in listed.stdout.splitlines() if "You said" in line}
    assert "unknown" in lines[f"telegram:{died.id}"] and VANISHED in lines[f"telegram:{died.id}"]
    assert "unknown" in lines[f"telegram:{lost.id}"] and "did not answer" in lines[f"telegram:{lost.id}"]
    assert "pending" in lines[f"telegram:{fails.id}"] and "Internal Server Error" in lines[f"telegram:{fails.id}"]
    assert "failed" in lines[f"telegram:{blocked.id}"] and "blocked by the user" in lines[f"telegram:{blocked.id}"]


def test_parts_stay_in_order(service: Service) -> None:
    """The second of three parts has to wait; the third waits with it, and no part is sent twice."""
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"text": "\n\n".join(f"{n} " + "word " * 700 for n in range(3))})
    service.stage.telegram.script({"method": "sendMessage", "chat": chat.id, "kind": "slow"})
    service.stage.telegram.script(
        {"method": "sendMessage", "chat": chat.id, "kind": "rate_limit", "retry_after": 1, "times": 1}
    )

    service.say(chat, "tell me much")
    service.settle()

    assert [text[0] for text in service.stage.replies(chat)] == ["0", "1", "2"]
    assert [call["outcome"] for call in service.stage.attempts(chat)] == ["ok", "rate_limit", "ok", "ok"]
    assert parts(service) == [("sent", 1), ("sent", 2), ("sent", 1)]


def test_a_group_that_moved_is_followed_from_the_answer_on(make_service: MakeService) -> None:
    """Only the old number is allowed by the settings; nobody told the service that there is a new one."""
    old, new = -77001, -1001000077001
    service = make_service(TELEGRAM_ALLOWED_CHATS=str(old)).start()
    service.stage.telegram.script({"method": "sendMessage", "chat": old, "kind": "migrate", "to": new, "times": None})

    for number, chat in ((1, old), (2, new)):
        update = service.stage.chat().update("@moab_bot hello", number)
        update["message"]["chat"] = {"id": chat, "type": "supergroup"}
        assert service.update(update) == 200
        service.settle()

    took = [call for call in service.stage.telegram.calls("sendMessage") if call["params"]["chat_id"] in (old, new)]
    assert [(call["params"]["chat_id"], call["outcome"]) for call in took] == [
        (old, "migrate"),
        (new, "ok"),
        (new, "ok"),
    ]
    [session] = service.rows("SELECT key FROM sessions")
    assert session["key"].endswith(f":{new}") and parts(service) == [("sent", 1), ("sent", 1)]
    check_transcripts(service)
