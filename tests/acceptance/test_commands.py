"""Commands and tasks of a real process that is killed in the middle: carried out once, told once."""

from typing import Any

import pytest

from app.sentences import UNKNOWN_NOTICE
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import until

REPORT = "The answer is forty-two."
TOLD = "The task is done: forty-two."


def test_a_command_killed_after_it_was_carried_out(make_service: MakeService) -> None:
    service = make_service().start()
    chat = service.stage.chat()
    service.say(chat, "one")
    service.settle()
    service.kill()
    service.start("command.committed")
    service.update(chat.update("/new"))
    assert service.ended() == -9
    service.start()
    service.settle()
    service.say(chat, "two")
    service.settle()

    first, said, second = service.stage.replies(chat)
    assert said.startswith("A fresh conversation") and "two" in second and "one" in first
    assert service.rows("SELECT count(*) AS n FROM sessions") == [{"n": 2}]
    asked = service.stage.asked(chat.tag)[-1]["messages"]
    assert [m["content"] for m in asked[1:]] == [f"two {chat.tag}"]
    check_transcripts(service)


@pytest.mark.parametrize(
    "failpoint",
    ["", "tool.started:1", "receive.committed:2", "think.committed:3", "tool.recorded:1", "finish.committed:2"],
)
def test_a_task_in_the_background(make_service: MakeService, failpoint: str) -> None:
    """It is begun once and reported once, wherever the process dies."""
    service = make_service(speed=10).start(failpoint)
    chat = service.stage.chat()
    script(service.stage, chat.tag)

    taken = service.update(update := chat.update("begin"))
    if failpoint:
        assert service.ended() == -9
        service.start()
        if taken != 200:
            assert service.update(update) == 200
    until(lambda: TOLD in service.stage.replies(chat), "the report", within_s=15)
    service.settle()

    replies = service.stage.replies(chat)
    assert replies.count(TOLD) == 1 and set(replies) <= {"I am at it.", UNKNOWN_NOTICE, TOLD}
    ran = service.workspace("searched.txt")
    assert ran == ("" if failpoint == "tool.started:1" else "searched\n"), "an unsafe command is never run twice"
    assert service.rows("SELECT state FROM tasks") == [{"state": "done"}]
    ended = service.rows("SELECT summary FROM observations WHERE kind = 'TASK_COMPLETED'")
    assert ended == [{"summary": REPORT}]
    check_transcripts(service)


def script(stage: Any, tag: str) -> None:
    task = {"task": f"find it {tag}", "mode": "background"}
    news = f"find it {tag}\nResult:"  # the words right before the tag are those of the task
    stage.model.script({"text": TOLD, "times": None, "when": {"last_user": news}})
    stage.script(
        tag,
        {"text": "I am at it.", "when": {"has_result_of": "delegate_task"}},
        {"text": REPORT, "when": {"last_user": "find it", "last_role": "tool"}},
        {
            "tool_calls": [{"name": "bash", "arguments": {"command": "echo searched >> searched.txt"}}],
            "when": {"last_user": "find it"},
        },
        {"tool_calls": [{"name": "delegate_task", "arguments": task}]},
    )
