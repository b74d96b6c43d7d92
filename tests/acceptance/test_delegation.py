"""A task for a sub-agent: its own session, its answer on the parent's call, also when the process dies meanwhile."""

import pytest

from app.agent.act import STOPPED_BY_USER
from app.agent.people.commands import STOPPED_TASK
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.stage import Chat
from tests.acceptance.test_steering import bash, group_lives, until_written

REPLY = "The sub-agent found it."
REPORT = "The answer is forty-two."


def delegate(chat: Chat) -> dict[str, object]:
    return {"tool_calls": [{"name": "delegate_task", "arguments": {"task": f"find it {chat.tag}"}}]}


def script_task(service: Service, chat: Chat, child_delay_s: float = 0.0) -> None:
    service.stage.script(
        chat.tag,
        {"text": "still at it", "when": {"last_user": "how far"}},
        {"text": REPORT, "when": {"last_user": "find it", "has_result_of": "bash"}},
        {
            "tool_calls": [{"name": "bash", "arguments": {"command": "echo searched >> searched.txt"}}],
            "when": {"last_user": "find it"},
            "delay_s": child_delay_s,
        },
        {"text": REPLY, "when": {"has_result_of": "delegate_task"}},
        delegate(chat),
    )


def asked_of_child(service: Service, chat: Chat) -> list[dict[str, object]]:
    return [r for r in service.stage.asked(chat.tag) if r["messages"][1]["content"] == f"find it {chat.tag}"]


def check_outcome(service: Service, chat: Chat) -> None:
    assert service.stage.replies(chat) == [REPLY]
    assert service.workspace("searched.txt") == "searched\n"
    assert service.rows("SELECT state FROM turns") == [{"state": "finished"}] * 2
    last = service.stage.asked(chat.tag)[-1]["messages"]
    assert [m["content"] for m in last if m["role"] == "tool"] == [REPORT]
    check_transcripts(service)


def test_the_answer_comes_back(make_service: MakeService) -> None:
    service = make_service().start()
    chat = service.stage.chat()
    script_task(service, chat)

    service.say(chat, "let it be found")
    service.settle()

    check_outcome(service, chat)
    first, _ = asked_of_child(service, chat)
    assert len(first["messages"]) == 2, "a child starts with its task and nothing else"
    assert "delegate_task" not in str(first["tools"]) and "bash" in str(first["tools"])
    assert len(service.stage.asked(chat.tag)) == 4


# TRAPS, Life and death: "A child's answer lost on restart".
@pytest.mark.parametrize(
    ("failpoint", "asked"),
    [
        ("think.committed:1", 4),  # the parent's wish is on disk, the child is not there yet
        ("receive.committed:2", 4),
        ("think.asking:2", 4),
        ("think.answered:2", 5),
        ("tool.recorded:1", 4),
        ("think.committed:3", 4),
        ("finish.committed:1", 4),
        ("finish.announced:1", 4),
        ("think.asking:4", 4),  # the parent goes on
    ],
)
def test_killed_while_the_child_works(make_service: MakeService, failpoint: str, asked: int) -> None:
    service = make_service().start(failpoint)
    chat = service.stage.chat()
    script_task(service, chat)

    service.update(chat.update("let it be found"))
    assert service.ended() == -9
    service.start()
    service.settle()

    check_outcome(service, chat)
    assert len(service.stage.asked(chat.tag)) == asked


def test_message_while_the_child_works(make_service: MakeService) -> None:
    """Rows 11 and 12: the child is adopted, not delegated twice; its result comes in later and is told."""
    service = make_service().start()
    chat = service.stage.chat()
    script_task(service, chat, child_delay_s=1.0)
    service.stage.model.script({"text": REPLY, "when": {"last_user": "has come to its end"}})

    service.say(chat, "let it be found")
    until(lambda: asked_of_child(service, chat), "the child's first question")
    service.say(chat, "how far")
    service.settle()

    assert service.stage.replies(chat) == ["still at it", REPLY]
    assert service.workspace("searched.txt") == "searched\n"
    assert service.rows("SELECT count(*) AS n FROM calls WHERE name = 'delegate_task'") == [{"n": 1}]
    meanwhile, afterwards = (
        [m["content"] for m in request["messages"] if m["role"] == "tool"]
        for request in service.stage.asked(chat.tag)
        if "how far" in str(request["messages"])
    )
    assert "Still running as task:" in meanwhile[0] and afterwards == [REPORT]
    check_transcripts(service)


def test_stop_ends_the_child_too(make_service: MakeService) -> None:
    """Also when an older turn delegated to it; and what was stopped is not told as news."""
    service = make_service().start()
    chat = service.stage.chat()
    service.stage.script(
        chat.tag,
        {"text": "still at it", "when": {"last_user": "how far"}},
        {**bash("echo $$ > group; sleep 60"), "when": {"last_user": "find it"}},
        delegate(chat),
    )

    service.say(chat, "let it be found")
    group = int(until_written(service, "group"))
    service.say(chat, "how far")
    until(lambda: service.stage.replies(chat), "the answer of the second turn")
    service.say(chat, "/stop")
    until(lambda: not group_lives(group), "the end of the process group", within_s=3)
    service.settle()

    assert service.stage.replies(chat) == ["still at it", "Stopped."]
    results = {row["name"]: row["result"] for row in service.rows("SELECT name, result FROM calls")}
    assert results == {"delegate_task": STOPPED_TASK, "bash": STOPPED_BY_USER}
    check_transcripts(service)
