"""The `moab` command as a process: quick help, plain errors, output for people and for machines."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.front.conftest import Moab
from tests.unit.front.fake_service import Failure, FakeService

HEAVY = ("litellm", "sqlalchemy", "fastapi", "faster_whisper", "inngest", "httpx", "prompt_toolkit", "pydantic")

RUN = {
    "id": "R1",
    "function": "handle-message",
    "status": "completed",
    "startedAt": "2026-01-05T12:00:00+00:00",
    "endedAt": "2026-01-05T12:00:02.500000+00:00",
    "sessionKey": "terminal:default",
    "event": {"name": "agent.message.received"},
}


def test_help_answers_in_half_a_second(moab_env: dict[str, str]) -> None:
    """Of the processor's time: what else runs on the machine does not count."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    def seconds() -> float:
        before = used()
        subprocess.run([sys.executable, "-m", "app.cli", "--help"], env=moab_env, check=True, capture_output=True)
        return used() - before

    assert min(seconds() for _ in range(3)) < 0.5


def test_help_imports_nothing_heavy(moab_env: dict[str, str]) -> None:
    code = f"""
import sys
from app.cli import app
try:
    app(["--help"])
except SystemExit:
    pass
sys.stderr.write(" ".join(sorted(set(sys.modules) & set({HEAVY!r}))))
"""
    done = subprocess.run([sys.executable, "-c", code], env=moab_env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "chat" in done.stdout


@pytest.mark.parametrize(
    "verb",
    [
        "chat",
        "serve",
        "send",
        "runs",
        "run",
        "model",
        "bench",
        "approvals",
        "usage",
        "setup",
        "people",
        "deliveries",
        "state",
        "heartbeat",
        "learnings",
    ],
)
def test_every_verb_explains_itself(moab: Moab, verb: str) -> None:
    done = moab(verb, "--help")
    assert done.returncode == 0 and "Usage: " in done.stdout


def test_the_version_is_the_package_version(moab: Moab) -> None:
    assert moab("--version").stdout.startswith("moab 0.")


def test_an_unknown_verb_is_a_usage_error(moab: Moab) -> None:
    done = moab("fly")
    assert done.returncode == 2 and "fly" in done.stderr


@pytest.mark.parametrize("arguments", [("send", "hello"), ("runs",), ("run", "R1")])
def test_without_a_service_one_sentence_says_what_to_do(moab: Moab, arguments: tuple[str, ...]) -> None:
    done = moab(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1 and "moab serve" in done.stderr


def test_a_setting_of_a_wrong_form_is_exit_code_2(moab: Moab) -> None:
    done = moab("model", MOAB_PORT="many")
    assert done.returncode == 2 and "MOAB_PORT" in done.stderr and "Traceback" not in done.stderr


def test_model_says_which_and_why(moab: Moab) -> None:
    assert moab("model").stdout.startswith("local/")
    assert "AGENT_MODEL says so" in moab("model", AGENT_MODEL="ollama/llama3.2").stdout
    assert moab("model", OPENAI_API_KEY="x").stdout.startswith("openai/")


def test_a_setting_that_is_nearly_one_is_named(moab: Moab, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("AGENT_MODL=ollama/x\nGROQ_API_KEY=k\nTELEGRAM_ALLOWED_CHAT=5\nMOAB_PORT=8787\n")
    lines = moab("model").stderr.splitlines()
    assert [line.partition(" in ")[0] for line in lines] == ["moab: AGENT_MODL", "moab: TELEGRAM_ALLOWED_CHAT"]
    assert lines[0].endswith("is no setting. Is AGENT_MODEL meant?")


def test_help_shows_defaults_that_come_from_elsewhere(moab: Moab) -> None:
    said = " ".join(moab("serve", "--help").stdout.split())
    assert "MOAB_HOST or 127.0.0.1" in said and "MOAB_PORT or 8787" in said and "on ." not in said


def test_a_sum_of_what_is_none_names_what_there_is(moab: Moab, service: FakeService) -> None:
    done = moab("usage", "--by", "foo")
    assert done.returncode == 2 and "'foo' is not accepted: session, day, model" in done.stderr


def test_model_names_what_it_cannot_be_asked_without(moab: Moab) -> None:
    assert "openai/gpt-5.4 cannot be asked: OPENAI_API_KEY" in moab("model", AGENT_MODEL="openai/gpt-5.4").stderr
    assert "foo/bar is of no provider that I know" in moab("model", AGENT_MODEL="foo/bar").stderr
    done = moab("model", AGENT_MODEL="openai/gpt-5.4", OPENAI_API_KEY="x")
    assert done.returncode == 0 and done.stderr == ""


def test_needs_local_is_no_for_a_configured_model(moab: Moab) -> None:
    assert moab("model", "--needs-local", AGENT_MODEL="ollama/llama3.2").returncode == 1


def test_send_tells_the_key_or_waits_for_the_answer(moab: Moab, service: FakeService) -> None:
    sent = moab("send", "hello", "--session", "garden")
    assert sent.returncode == 0 and service.posts[0]["messageKey"] in sent.stdout
    assert "`moab chat --session garden` shows the answer; --wait waits" in sent.stdout
    waited = moab("send", "hello", "--wait")
    assert (waited.returncode, waited.stdout) == (0, "You said: hello\n")
    assert [post["sessionKey"] for post in service.posts] == ["terminal:garden", "terminal:default"]


def test_send_takes_files_along(moab: Moab, service: FakeService, tmp_path: Path) -> None:
    for name in ("note.ogg", "plan.png", "talk.mp3", "list.csv", "odd"):
        (tmp_path / name).write_bytes(b"\x00\xff")
    names = [str(tmp_path / name) for name in ("note.ogg", "plan.png", "talk.mp3", "list.csv", "odd")]
    done = moab("send", "look", "--wait", *(word for name in names for word in ("--file", name)))
    assert (done.returncode, done.stdout) == (0, "You said: look\n")
    files = service.posts[0]["attachments"]
    assert [file["kind"] for file in files] == ["voice", "photo", "audio", "document", "document"]
    assert files[1] == {"kind": "photo", "name": "plan.png", "mime": "image/png", "data": "AP8="}
    assert "mime" not in files[4]
    alone = moab("send", "--file", names[1])
    assert alone.returncode == 0 and service.posts[1]["message"] == ""


def test_send_says_which_file_cannot_be_read_and_wants_something_to_say(
    moab: Moab, service: FakeService, tmp_path: Path
) -> None:
    done = moab("send", "look", "--file", str(tmp_path / "none.txt"))
    assert done.returncode == 1 and "none.txt cannot be sent (No such file" in done.stderr
    assert moab("send").returncode == 2 and service.posts == []


def test_send_tells_a_failure_by_its_exit_code(moab: Moab, service: FakeService) -> None:
    service.script["boom"] = Failure("The model is not reachable.")
    done = moab("send", "boom", "--wait")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "The model is not reachable.\n")


def test_runs_are_a_table_or_json(moab: Moab, service: FakeService) -> None:
    service.runs = [RUN]
    table = moab("runs").stdout.splitlines()
    assert table[0].split() == ["ID", "FUNCTION", "STATUS", "OUTCOME", "STARTED", "TOOK", "SESSION"]
    assert "handle-message" in table[1] and "2.5 s" in table[1]
    assert json.loads(moab("runs", "--json").stdout) == {"runs": [RUN]}


def test_no_runs_is_said(moab: Moab, service: FakeService) -> None:
    assert moab("runs").stdout == "No runs.\n"


def test_a_run_is_shown_step_by_step(moab: Moab, service: FakeService) -> None:
    service.runs = [RUN]
    page = moab("run", "R1").stdout
    assert "1. think [StepRun] completed, 250 ms, 2 attempts" in page and '{"text": "four"}' in page
    assert json.loads(moab("run", "R1", "--json").stdout)["steps"][0]["name"] == "think"
    missing = moab("run", "R2")
    assert (missing.returncode, missing.stderr) == (1, "moab: There is no such run.\n")


def test_chat_attaches_to_the_running_service(moab: Moab, service: FakeService) -> None:
    done = moab("chat", "--session", "garden", stdin="hello\n")
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert done.stderr == "test/model answers.\n"
    assert service.posts[0]["sessionKey"] == "terminal:garden"


def test_chat_says_once_how_small_the_local_model_is(moab: Moab, service: FakeService) -> None:
    service.model = "local/smollm2-135m-instruct"
    said = moab("chat").stderr
    assert said.count("\n") == 1 and "tiny" in said and "AGENT_MODEL" in said


def test_a_fault_of_ours_is_a_sentence_and_no_traceback(moab_env: dict[str, str]) -> None:
    code = "import sys, app.cli.moab as c; c.read_settings = lambda: 1 / 0; sys.argv = ['moab', 'model']; c.main()"
    done = subprocess.run([sys.executable, "-c", code], env=moab_env, capture_output=True, text=True)
    assert done.returncode == 1 and "ZeroDivisionError: division by zero" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_terminal_that_cannot_show_an_answer_shows_the_rest(moab: Moab, service: FakeService) -> None:
    service.script["hello"] = "caf\u00e9 \u4f60"
    done = moab("chat", stdin="hello\n", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "caf? ?\n")


def test_the_token_of_the_settings_is_sent(moab: Moab, service: FakeService, tmp_path: Path) -> None:
    moab("send", "hello", MOAB_API_TOKEN="sesame")
    assert all(headers["Authorization"] == "Bearer sesame" for _, headers in service.requests)


def test_approvals_are_listed_and_decided(moab: Moab, service: FakeService) -> None:
    service.approvals = [
        {
            "id": "K3F9", "tool": "bash", "arguments": '{"command": "rm -r \\u001b[2J"}', "folder": "/w",
            "requester": "telegram:7", "sessionKey": "telegram:1:2", "expiresAt": "2026-01-05T12:00:00+00:00",
        }
    ]  # fmt: skip
    for shown in (moab("approvals").stdout, moab("approvals", "list").stdout):
        assert "K3F9  bash  for telegram:7 in telegram:1:2" in shown and "rm -r" in shown and "\x1b" not in shown
    assert json.loads(moab("approvals", "list", "--json").stdout)["approvals"][0]["id"] == "K3F9"
    done = moab("approvals", "deny", "K3F9", "not", "today")
    assert (done.returncode, done.stdout.strip()) == (0, "deny K3F9 not today")
    late = moab("approvals", "approve", "K3F9")
    assert (late.returncode, late.stderr.strip()) == (1, "approve K3F9")
    assert moab("approvals").stdout.strip() == "Nothing waits for a decision."


def test_setup_of_what_is_no_platform_names_those_that_are(moab: Moab) -> None:
    done = moab("setup", "pigeon")
    assert done.returncode == 1 and "nothing to set up under the name pigeon" in done.stderr
    assert "slack, telegram, voice" in done.stderr
