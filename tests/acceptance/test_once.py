"""However often and from wherever a message comes: one turn and one reply, and no message without one."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, starts_are_lost, until
from tests.acceptance.stage import Chat


def turns_of(service: Service, chat: Chat) -> list[str]:
    query = "SELECT turns.state FROM turns JOIN sessions ON sessions.id = session_id WHERE key = ? ORDER BY run_id"
    return [row["state"] for row in service.rows(query, chat.session_key)]


def messages_of(service: Service, chat: Chat) -> list[tuple[str, str]]:
    """(role, state) in the order of the transcript."""
    query = """
        SELECT role, state FROM messages JOIN sessions ON sessions.id = session_id WHERE key = ? ORDER BY messages.id
    """
    return [(row["role"], row["state"]) for row in service.rows(query, chat.session_key)]


def test_duplicates_and_equal_numbers(make_service: MakeService) -> None:
    service = make_service().start()
    one, other = service.stage.chat(), service.stage.chat()
    update = one.update("hello", number=7)

    with ThreadPoolExecutor(5) as pool:
        statuses = list(pool.map(service.update, [update] * 5))
    assert service.update(other.update("hello", number=7)) == 200
    service.settle()
    service.kill()
    service.start()
    assert service.update(update) == 200
    service.settle()

    assert statuses == [200] * 5
    for chat in (one, other):
        assert service.stage.replies(chat) == [f"You said: hello {chat.tag}"]
        assert turns_of(service, chat) == ["finished"]
        assert messages_of(service, chat) == [("user", "answered"), ("assistant", None)]
        assert len(service.stage.asked(chat.tag)) == 1
    check_transcripts(service)


@pytest.mark.parametrize("lossy", [False, True], ids=["all starts", "starts are lost"])
def test_five_messages_in_a_burst(make_service: MakeService, lossy: bool) -> None:
    service = make_service(speed=20, lossy=lossy).start()
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"text": "answer {n}", "delay_s": 0.4})

    for word in ("one", "two", "three", "four", "five"):
        service.say(chat, word)
    service.settle()

    replies = service.stage.replies(chat)
    assert replies and len(set(replies)) == len(replies)
    last = service.stage.asked(chat.tag)[-1]
    assert all(
        any(word in str(m["content"]) for m in last["messages"]) for word in ("one", "two", "three", "four", "five")
    )
    assert [state for role, state in messages_of(service, chat) if role == "user"] == ["answered"] * 5
    assert turns_of(service, chat)[-1] == "finished"
    assert ("its singleton is busy" in service.errors.read_text()) is (lossy or starts_are_lost())
    check_transcripts(service)


def test_message_while_the_model_thinks(make_service: MakeService) -> None:
    """Row 1: words belong to the turn that holds the session; the first one's come too late."""
    service = make_service().start()
    chat = service.stage.chat()
    service.stage.script(
        chat.tag, {"text": "both", "when": {"last_user": "second"}}, {"text": "only the first", "delay_s": 1.0}
    )

    service.say(chat, "first")
    until(lambda: service.stage.asked(chat.tag), "the first question to the model")
    service.say(chat, "second")
    service.settle()
    until(lambda: not service.rows("SELECT 1 FROM usage GROUP BY run_id HAVING count(*) > 1"), "the late answer")

    assert service.stage.replies(chat) == ["both"]
    assert turns_of(service, chat) == ["superseded", "finished"]
    assert messages_of(service, chat) == [("user", "answered"), ("user", "answered"), ("assistant", None)]
    check_transcripts(service)


def test_stored_and_never_delivered_again(make_service: MakeService) -> None:
    """The process dies between the row and the start signal, and the sender does not come back: the row is enough."""
    service = make_service().start("deposit.committed")
    chat = service.stage.chat()

    assert service.update(chat.update("hello")) == 0
    assert service.ended() == -9
    service.start()
    service.settle()

    assert service.stage.replies(chat) == [f"You said: hello {chat.tag}"]
    check_transcripts(service)


def test_message_between_the_last_thought_and_the_end(make_service: MakeService) -> None:
    """Row 5: the finish sees it and the turn goes on; what was thought before is a draft that nobody is sent."""
    service = make_service().start("think.committed")
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"text": "both", "when": {"last_user": "second"}}, {"text": "only the first"})

    service.update(chat.update("first"))
    assert service.ended() == -9
    service.change(
        """
        INSERT INTO messages (session_id, role, text, data, message_key, state, origin, channel, destination,
                              channel_meta, event, event_sent_at, created_at)
        SELECT session_id, role, replace(text, 'first', 'second'), data, message_key || '-second', state, origin,
               channel, destination, channel_meta, event, created_at, created_at
        FROM messages WHERE role = 'user'
        """
    )
    service.start()
    service.settle()

    assert service.stage.replies(chat) == ["both"]
    assert [state for role, state in messages_of(service, chat) if role == "user"] == ["answered"] * 2
    assert turns_of(service, chat) == ["finished"]
    assert len(service.stage.asked(chat.tag)) == 2
    check_transcripts(service)
