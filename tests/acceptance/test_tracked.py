"""`kill -9` while tracked tasks are written about: each observation is there once, and each question is asked once."""

import contextlib

import httpx
import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until
from tests.acceptance.stage import Chat

TASK = "ships"
DONE = "All ships are counted."


def start_task(service: Service, chat: Chat, **limits: int) -> None:
    body = {"id": TASK, "goal": f"count the ships {chat.tag}", "steps": ["look"], "owner": chat.session_key}
    assert service.post("/api/tasks", body | {"limits": limits}).status_code == 200


def observed(service: Service) -> list[tuple[str, str]]:
    rows = service.rows("SELECT kind, source FROM observations ORDER BY id")
    return [(row["kind"], row["source"]) for row in rows]


def truth(service: Service, task_id: str = TASK) -> str:
    return str(service.get(f"/api/tasks/{task_id}").json()["derived"]["truth_state"])


@pytest.mark.parametrize(
    "failpoint", [f"tool.{place}:{number}" for number in (1, 2) for place in ("started", "done", "recorded")]
)
def test_killed_at_every_place_of_a_tool_that_observes(make_service: MakeService, failpoint: str) -> None:
    service = make_service().start()
    chat = service.stage.chat()
    start_task(service, chat)
    service.kill()
    step = {"task_id": TASK, "step": "look", "summary": "12", "completed": True}
    service.stage.script(
        chat.tag,
        {"text": DONE, "when": {"has_result_of": "task_complete"}},
        {
            "tool_calls": [{"name": "task_complete", "arguments": {"task_id": TASK, "summary": "12"}}],
            "when": {"has_result_of": "task_progress"},
        },
        {"tool_calls": [{"name": "task_progress", "arguments": step}]},
    )
    service.start(failpoint)
    service.update(chat.update("count the ships"))
    assert service.ended() == -9
    service.start()
    service.settle()

    assert service.stage.replies(chat) == [DONE]
    assert observed(service) == [("STARTED", "operator"), ("STEP_COMPLETED", "owner"), ("TASK_COMPLETED", "owner")]
    assert truth(service) == "COMPLETED"
    check_transcripts(service)


@pytest.mark.parametrize("failpoint", ["tool.started:1", "tool.done:1", "tool.recorded:1", "finish.committed:2"])
def test_killed_while_a_sub_agent_works_in_the_background(make_service: MakeService, failpoint: str) -> None:
    service = make_service().start(failpoint)
    chat = service.stage.chat()
    task = {"task": f"find it {chat.tag}", "mode": "background"}
    service.stage.script(
        chat.tag,
        {"text": "It was found.", "when": {"last_user": "find it", "has_result_of": "write"}},
        {
            "tool_calls": [{"name": "write", "arguments": {"path": "found.txt", "content": "here"}}],
            "when": {"last_user": "find it"},
        },
        {"text": "I am at it.", "when": {"has_result_of": "delegate_task"}},
        {"tool_calls": [{"name": "delegate_task", "arguments": task}]},
    )
    service.update(chat.update("look for it"))
    assert service.ended() == -9
    service.start()
    service.settle()

    kinds = [kind for kind, _ in observed(service)]
    assert kinds == ["STARTED", "HEARTBEAT", "TASK_COMPLETED"]
    (task_id,) = {row["task_id"] for row in service.rows("SELECT task_id FROM observations")}
    assert truth(service, task_id) == "COMPLETED" and service.workspace("found.txt") == "here"
    service.post("/api/tasks/monitor", {})
    assert service.rows("SELECT task_id FROM supervision") == []


@pytest.mark.parametrize(("failpoint", "end"), [("ledger.begun", "FAILED"), ("tool.done", "COMPLETED")])
def test_killed_while_a_command_is_started_in_the_background(
    make_service: MakeService, failpoint: str, end: str
) -> None:
    """Before it runs or after: the ledger has it, the next process finds out, and the conversation is told once."""
    service = make_service().start(failpoint)
    chat = service.stage.chat()
    command = {"command": f"until [ -e gate ]; do sleep 0.05; done; : '{chat.tag}'", "background": True}
    service.stage.script(
        chat.tag,
        {"text": "Let me see.", "when": {"has_result_of": "bash"}, "times": 1},
        {"text": "It is over.", "when": {"has_result_of": "bash"}},
        {"tool_calls": [{"name": "bash", "arguments": command}]},
    )
    service.update(chat.update("look for it"))
    assert service.ended() == -9
    assert observed(service) == [("STARTED", "bash")]
    service.start()
    (service.home / "workspace" / "gate").touch()
    (task_id,) = {row["task_id"] for row in service.rows("SELECT task_id FROM observations")}
    until(lambda: truth(service, task_id) == end or not service.post("/api/heartbeat", {}), f"the task is {end}")
    service.settle()
    # The news may come while the turn that began the command still goes on: then one answer takes in both.
    assert service.stage.replies(chat) in (["Let me see.", "It is over."], ["It is over."])
    check_transcripts(service)


def test_killed_between_a_question_and_its_event(make_service: MakeService) -> None:
    service = make_service().start("monitor.committed")
    chat = service.stage.chat()
    reply = {"task_id": TASK, "branch": "B", "summary": "I looked: 12"}
    service.stage.script(
        chat.tag,
        {"text": "It was done.", "when": {"has_result_of": "task_reply"}},
        {"tool_calls": [{"name": "task_reply", "arguments": reply}], "when": {"last_user": "count the ships"}},
        {"text": "Hello."},
    )
    service.say(chat, "hello")
    service.settle()
    start_task(service, chat, heartbeat_s=1, stale_s=1, nudge_s=1)
    until(lambda: service.get(f"/api/tasks/{TASK}").json()["action"]["kind"] == "NUDGE_MAIN_AGENT", "a second")
    with contextlib.suppress(httpx.TransportError):
        service.post("/api/tasks/monitor", {})
    assert service.ended() == -9
    service.start()
    service.settle()

    assert service.rows("SELECT origin, state FROM messages WHERE origin = 'the monitor'") == [
        {"origin": "the monitor", "state": "answered"}
    ]
    assert service.stage.replies(chat) == ["Hello.", "It was done."]
    assert [kind for kind, _ in observed(service)] == [
        "STARTED",
        "OWNER_REPLY_RECORDED",
        "STEP_COMPLETED",
        "TASK_COMPLETED",
    ]
    assert truth(service) == "COMPLETED"
    check_transcripts(service)
