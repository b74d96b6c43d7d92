"""Pictures for a model that sees, and commands behind walls, through a whole service."""

import shutil
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service
from tests.fakes.model_server import text_of
from tests.unit.tools import papers
from tools.sandbox import Bubblewrap, why_not


def pictures(service: Service, tag: str) -> list[int]:
    """How many pictures each request to the model had."""
    return [str(request["messages"]).count("data:image/png;base64,") for request in service.stage.asked(tag)]


@pytest.mark.parametrize("failpoint", ["", "tool.recorded:1", "think.answered:2"])
def test_what_is_read_is_seen_also_by_the_next_process(make_service: MakeService, failpoint: str) -> None:
    service = make_service(VISION_MODELS="openai/fake")
    (service.home / "workspace").mkdir(parents=True)
    (service.home / "workspace" / "plan.png").write_bytes(papers.png(64, 32))
    chat = service.stage.chat()
    look = {"tool_calls": [{"name": "read", "arguments": {"path": "plan.png"}}]}
    service.stage.script(chat.tag, look)
    seeing = {"text": "I see it.", "when": {"last_user": "which a tool has read]"}, "times": None}
    service.stage.model.script(seeing)

    service.start(failpoint)
    service.update(chat.update("look at the plan"))
    if failpoint:
        assert service.ended() == -9
        service.start()
    service.settle()

    check_transcripts(service)
    assert service.stage.replies(chat) == ["I see it."]
    assert pictures(service, chat.tag) == [0, *[1] * (2 if failpoint.startswith("think") else 1)]
    (service.home / "workspace" / "plan.png").unlink()
    service.say(chat, "and what was it?")
    service.settle()
    assert pictures(service, chat.tag)[-1] == 1, "the copy is what was read"


def test_a_model_that_does_not_see_is_told(make_service: MakeService) -> None:
    service = make_service()
    (service.home / "workspace").mkdir(parents=True)
    (service.home / "workspace" / "plan.png").write_bytes(papers.png(64, 32))
    chat = service.stage.chat()
    look = {"tool_calls": [{"name": "read", "arguments": {"path": "plan.png"}}]}
    service.stage.script(chat.tag, {"text": "I cannot.", "when": {"has_result_of": "read"}}, look)
    service.start()
    service.say(chat, "look at the plan")
    service.settle()
    assert pictures(service, chat.tag) == [0, 0]
    told = [text_of(m) for m in service.stage.asked(chat.tag)[-1]["messages"] if m["role"] == "tool"]
    assert "64 x 32 pixels" in told[0] and "You cannot see pictures" in told[0]


def test_behind_walls_a_command_from_a_chat_runs_unasked(make_service: MakeService, tmp_path: Path) -> None:
    program = shutil.which("bwrap")
    if program is None or why_not(Bubblewrap(program), tmp_path):
        pytest.skip("bubblewrap is not here or cannot work here")
    service = make_service(SANDBOX="bwrap", TOOL_POLICY="")
    chat = service.stage.chat()
    command = f"echo hi > made.txt; cat {service.home}/moab.db | wc -c; cat made.txt"
    bash = {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}
    service.stage.script(chat.tag, {"text": "Done.", "when": {"has_result_of": "bash"}}, bash)
    service.start()
    service.say(chat, "make it")
    service.settle()
    assert service.stage.replies(chat) == ["Done."] and service.rows("SELECT * FROM approvals") == []
    assert service.workspace("made.txt") == "hi\n"
    (row,) = service.rows("SELECT result FROM calls")
    assert "moab.db: No such file" in row["result"] and row["result"].endswith("0\nhi\n[exit code 0]")


def test_a_service_that_cannot_have_its_walls_does_not_start(make_service: MakeService, tmp_path: Path) -> None:
    service = make_service(SANDBOX="bwrap", PATH=str(tmp_path))
    service.launch()
    assert service.ended() != 0
    assert "bubblewrap is not installed. Install it" in service.errors.read_text()
