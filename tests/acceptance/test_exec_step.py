"""A command of a pipeline that a person is asked about: approved it runs once, denied the goal ends, whatever dies."""

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.service import Service, until
from tests.acceptance.stage import Chat
from tests.acceptance.test_approval import press, prompt, prompts

PIPELINE = """
steps:
  - {id: run, action: exec, command: "echo line | tee -a lines.txt"}
  - {id: keep, action: write, output: kept.txt, content: "kept{text.run}", needs: [run]}
"""
APPROVE, DENY = 0, 1


@pytest.fixture
def service(make_service: MakeService) -> Service:
    return make_service(TOOL_POLICY="bash=ask")


def begin(service: Service, failpoint: str = "") -> Chat:
    """A chat in which somebody has spoken, and a goal that asks there."""
    chat = service.stage.chat()
    service.stage.script(chat.tag, {"text": "Hello."})
    service.start()
    service.say(chat, "hello")
    service.settle()
    if failpoint:
        service.kill()
        service.start(failpoint)
    path = service.home / "workspace" / "pipelines" / "demo.yaml"
    path.write_text(PIPELINE)
    service.post("/api/goals", {"pipeline": "demo", "key": "one"})
    return chat


def ended(service: Service) -> dict[str, object]:
    def goal() -> dict[str, object] | None:
        (found,) = service.get("/api/goals").json()["goals"]
        return dict(found) if found["closedAt"] else None

    found = until(goal, "the end of the goal")
    service.settle()
    assert found is not None
    return found


def test_approved_it_runs_once(service: Service) -> None:
    chat = begin(service)
    asked = prompt(service, chat)
    assert "tee -a lines.txt" in asked["params"]["text"] and service.workspace("lines.txt") == ""
    press(service, chat, asked, APPROVE)
    assert ended(service)["life"] == "COMPLETED"
    assert service.workspace("lines.txt") == "line\n" and service.workspace("kept.txt") == "keptline"
    assert len(prompts(service, chat)) == 1


def test_denied_the_goal_ends_with_the_reason(service: Service) -> None:
    chat = begin(service)
    press(service, chat, prompt(service, chat), DENY)
    goal = ended(service)
    assert goal["life"] == "FAILED_PERMANENT" and "denied" in str(goal["reason"]) and "Ada" in str(goal["reason"])
    assert service.workspace("lines.txt") == "" and len(prompts(service, chat)) == 1
    told = [text for text in service.stage.replies(chat) if "I could not finish" in text]
    assert len(told) == 1 and "denied" in told[0]


@pytest.mark.parametrize("failpoint", ["approval.decided", "tool.started", "tool.done", "tool.recorded"])
def test_killed_after_the_approval(service: Service, failpoint: str) -> None:
    """Decided and not begun it runs; begun it may have run, which is said and not done again."""
    chat = begin(service, failpoint)
    press(service, chat, prompt(service, chat), APPROVE)
    assert service.ended() == -9
    service.start()
    goal = ended(service)
    lines = service.workspace("lines.txt")
    if failpoint in ("tool.started", "tool.done"):
        assert goal["life"] == "FAILED_PERMANENT" and "may or may not have happened" in str(goal["reason"])
        assert lines == ("" if failpoint == "tool.started" else "line\n")
    else:
        assert (goal["life"], lines) == ("COMPLETED", "line\n")
    assert len(prompts(service, chat)) == 1
