"""A message, /stop or /new while a tool runs: one tool at a time, what is done is kept, what is stopped is dead."""

import os
from pathlib import Path

import pytest

from app.agent.act import STOPPED_BY_USER
from app.sessions.calls import MAY_HAVE_HAPPENED
from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service, until


def bash(command: str) -> dict[str, object]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


def until_written(service: Service, name: str) -> str:
    return until(lambda: service.workspace(name), f"{name} in the workspace").strip()


def group_lives(group: int) -> bool:
    """Whether a process of the group runs; one that is dead and not yet buried does not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of_group = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(of_group) == group and state != "Z":
            return True
    return False


@pytest.mark.parametrize("lossy", [False, True], ids=["all starts", "starts are lost"])
def test_message_while_a_tool_runs(make_service: MakeService, lossy: bool) -> None:
    """Row 2: the new turn waits for the tool, sees its result, and only then goes on."""
    service = make_service(lossy=lossy).start()
    chat = service.stage.chat()
    service.stage.script(
        chat.tag,
        {"text": "both done", "when": {"last_user": "second", "last_role": "tool"}},
        {**bash("echo second >> log; sleep 0.2; echo second ended >> log"), "when": {"last_user": "second"}},
        bash("echo first >> log; sleep 2; echo first ended >> log; echo the first result"),
    )

    service.say(chat, "first")
    until_written(service, "log")
    service.say(chat, "second")
    service.settle()

    assert service.stage.replies(chat) == ["both done"]
    assert service.workspace("log").splitlines() == ["first", "first ended", "second", "second ended"]
    calls = service.rows("SELECT state, ok, result FROM calls ORDER BY id")
    assert [(call["state"], call["ok"]) for call in calls] == [("finished", 1)] * 2
    assert "the first result" in calls[0]["result"]
    steered = service.stage.asked(chat.tag)[1]["messages"]
    assert [m["role"] for m in steered] == ["system", "user", "assistant", "tool", "user"]
    assert "the first result" in steered[3]["content"]
    check_transcripts(service)


def test_stop_while_a_tool_runs(make_service: MakeService) -> None:
    service = make_service().start()
    chat = service.stage.chat()
    service.stage.script(
        chat.tag,
        {"text": "fine", "when": {"last_user": "go on"}},
        bash("echo $$ > group; sleep 60 & sleep 60; echo late > late"),
    )

    service.say(chat, "work")
    group = int(until_written(service, "group"))
    assert group_lives(group)
    service.say(chat, "/stop")
    until(lambda: not group_lives(group), "the end of the process group", within_s=3)
    service.settle()
    service.kill()
    service.start()
    service.settle()

    assert service.stage.replies(chat) == ["Stopped. Cut off: bash."]
    assert service.workspace("late") == ""
    assert service.rows("SELECT state FROM turns") == [{"state": "stopped"}]
    assert service.rows("SELECT state, result FROM calls") == [{"state": "finished", "result": STOPPED_BY_USER}]
    assert len(service.stage.asked(chat.tag)) == 1
    check_transcripts(service)

    service.say(chat, "go on")
    service.settle()
    assert service.stage.replies(chat)[1:] == ["fine"]


def test_stop_while_a_newer_message_waits_for_the_tool(make_service: MakeService) -> None:
    """The tool belongs to a turn that is superseded already; it is stopped all the same."""
    service = make_service().start()
    chat = service.stage.chat()
    service.stage.script(chat.tag, bash("echo $$ > group; sleep 60"))

    service.say(chat, "work")
    group = int(until_written(service, "group"))
    service.say(chat, "hurry")
    until(lambda: len(service.rows("SELECT 1 FROM turns")) == 2, "the second turn")
    service.say(chat, "/stop")
    until(lambda: not group_lives(group), "the end of the process group", within_s=3)
    service.settle()

    [reply] = service.stage.replies(chat)
    assert reply.startswith("Stopped.")
    assert {row["state"] for row in service.rows("SELECT state FROM turns")} == {"stopped"}
    assert service.rows("SELECT result FROM calls") == [{"result": STOPPED_BY_USER}]
    check_transcripts(service)


@pytest.mark.parametrize("command", ["/stop", "/new", "/undo"])
def test_what_comes_right_behind_a_command_is_not_meant_by_it(make_service: MakeService, command: str) -> None:
    service = make_service().start()
    for _ in range(10):
        chat = service.stage.chat()
        service.stage.script(chat.tag, {"text": "here", "when": {"last_user": "again"}}, {"text": "slow", "delay_s": 5})
        service.say(chat, "work")
        until(lambda: service.stage.asked(chat.tag), "the question to the model")  # noqa: B023
        service.say(chat, command)
        service.say(chat, "again")
        until(lambda: "here" in service.stage.replies(chat), "the answer", within_s=5)  # noqa: B023
    assert all("slow" not in reply for reply in service.stage.replies(chat))


def test_new_while_a_tool_runs(make_service: MakeService) -> None:
    """Row 17: what comes late stays with the old session, and the fresh one knows nothing of it."""
    service = make_service().start()
    chat = service.stage.chat()
    service.stage.script(
        chat.tag, {"text": "hello", "when": {"last_user": "afresh"}}, bash("echo $$ > group; sleep 60")
    )

    service.say(chat, "work")
    group = int(until_written(service, "group"))
    service.say(chat, "/new")
    service.say(chat, "afresh")
    until(lambda: not group_lives(group), "the end of the process group", within_s=3)
    service.settle()

    said, reply = service.stage.replies(chat)
    assert said.startswith("A fresh conversation") and reply == "hello"
    asked = service.stage.asked(chat.tag)[-1]["messages"]
    assert [(m["role"], m["content"]) for m in asked[1:]] == [("user", f"afresh {chat.tag}")]
    old, new = service.rows("SELECT id, closed_at FROM sessions ORDER BY created_at")
    assert old["closed_at"] and not new["closed_at"]
    assert service.rows("SELECT session_id, state, result FROM calls") == [
        {"session_id": old["id"], "state": "finished", "result": STOPPED_BY_USER}
    ]
    check_transcripts(service)


def test_kill_while_a_tool_runs_and_a_new_message(make_service: MakeService) -> None:
    """Row 3: the command of the dead process is not repeated; both messages are answered, once."""
    service = make_service().start()
    chat = service.stage.chat()
    service.stage.script(
        chat.tag,
        {"text": "both", "when": {"last_user": "second"}},
        {"text": "only the first", "when": {"last_role": "tool"}, "delay_s": 1.0},
        bash("echo $$ >> groups; sleep 60"),
    )

    service.say(chat, "first")
    group = int(until_written(service, "groups"))
    service.kill()
    os.killpg(group, 9)
    service.start()
    service.say(chat, "second")
    service.settle()

    assert service.workspace("groups").split() == [str(group)]
    assert service.stage.replies(chat) == ["both"]
    last = service.stage.asked(chat.tag)[-1]["messages"]
    assert [m["content"] for m in last if m["role"] == "tool"] == [MAY_HAVE_HAPPENED]
    check_transcripts(service)
