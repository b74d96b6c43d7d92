"""bash in the background: what goes on, what is told of it, how it ends, and that nobody else is ever killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.agent.tool import Tool, ToolResult
from app.errors import BadInput
from tools import background, background_records, identity
from tools.background import end_background, plan, start
from tools.background_records import Background, is_running, records
from tools.background_tools import background_tools
from tools.identity import identity_of
from tools.scan import ripgrep
from tools.search import grep_tool
from tools.shell import bash_tool, child_environment

Call = Callable[..., Coroutine[Any, Any, ToolResult]]
NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
ENVIRONMENT = {"PATH": os.environ["PATH"]}
ROOT = Path(__file__).resolve().parents[3]
SECRET = "correct-horse-battery"


@pytest.fixture
def bash() -> Tool:
    return bash_tool(ENVIRONMENT, [SECRET])


@pytest.fixture
def output() -> Tool:
    return background_tools([SECRET])[0]


@pytest.fixture
def kill() -> Tool:
    return background_tools()[1]


@pytest.fixture(autouse=True)
async def nothing_left(workspace: Path) -> AsyncIterator[None]:
    yield
    await end_background(workspace)


def begin(workspace: Path, command: str) -> Background:
    planned = plan(workspace, command, NOW)
    return start(workspace, planned, ["bash", "-c", command], workspace, child_environment(ENVIRONMENT))


def running(workspace: Path) -> list[str]:
    return [record.id for record in records(workspace) if is_running(workspace, record)]


async def test_a_command_goes_on_after_the_call_and_its_end_can_be_awaited(
    call: Call, bash: Tool, output: Tool, workspace: Path
) -> None:
    os.mkfifo(workspace / "gate")
    started = await call(bash, command="echo hello; read x < gate; echo $x >&2; exit 3", background=True)
    assert started.ok and started.text.startswith(
        "Started b1.\nhello\n[b1: running since 2026-01-05 12:00 UTC; 6 bytes"
    )
    assert ".moab/background/b1.log" in started.text
    waiting = asyncio.create_task(call(output, id="b1", wait_s=20))
    await asyncio.to_thread((workspace / "gate").write_text, "on\n")
    assert (await waiting).text == "hello\non\n[b1: exit code 3; 9 bytes of output in .moab/background/b1.log]"
    assert (await call(output, id="b1")).ok
    assert running(workspace) == []


async def test_what_fails_at_once_is_told_at_once(call: Call, bash: Tool) -> None:
    result = await call(bash, command="nosuchprogram", background=True)
    assert not result.ok and "nosuchprogram: command not found\n[b1: exit code 127" in result.text
    assert not (await call(bash, command="x" * 200_000, background=True)).ok
    assert not (await call(bash, command="true", workdir="..", background=True)).ok


async def test_it_runs_in_its_folder_without_input_terminal_or_secrets(call: Call, bash: Tool, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    command = "pwd; cat; tty; env | sort"
    text = (await call(bash, command=command, workdir="sub", background=True)).text
    assert f"Started b1.\n{workspace}/sub\nnot a tty\n" in text
    assert "TERM=dumb" in text and "exit code 0" in text


async def test_all_are_listed_and_wrong_names_explained(call: Call, bash: Tool, output: Tool, kill: Tool) -> None:
    assert (await call(output)).text == "There are no background commands."
    await call(bash, command="true\n" + "x" * 300, background=True)
    await call(bash, command="sleep 100", background=True)
    first, second = (await call(output)).text.split("\n")
    assert first.startswith("b1 [exit code 127] true xxx") and first.endswith("x [...]")
    assert second == "b2 [running since 2026-01-05 12:00 UTC] sleep 100"
    for wrong in ("b3", "../b1", "b1.json"):
        result = await call(kill, id=wrong)
        assert not result.ok and result.text.endswith("accepted: b1, b2")


# TRAPS, Tools: "A tool that hangs holds the turn -> ... process group killed".
async def test_killing_ends_the_whole_group_also_the_stubborn(
    call: Call, bash: Tool, kill: Tool, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "GRACE_S", 0.2)
    stubborn = "bash -c 'trap \"\" TERM; echo $BASHPID > pid; while :; do sleep 100; done' & trap '' TERM; sleep 100"
    await call(bash, command=stubborn, background=True)
    child = int((workspace / "pid").read_text())
    assert identity_of(child)
    result = await call(kill, id="b1")
    assert "[b1: ended by bash_kill" in result.text
    assert identity_of(child) is None and running(workspace) == []
    assert (await call(kill, id="b1")).text.startswith("b1 ran no more.")


async def test_a_command_that_obeys_has_its_exit_code_noted(call: Call, bash: Tool, kill: Tool) -> None:
    await call(bash, command="trap 'echo bye; exit 7' TERM; sleep 100 & wait", background=True)
    assert "bye\n[b1: exit code 7; ended by bash_kill" in (await call(kill, id="b1")).text
    await call(bash, command="sleep 100", background=True)
    assert "[b2: exit code 143, killed by SIGTERM; ended by bash_kill]" in (await call(kill, id="b2")).text


async def test_a_recycled_number_is_never_mistaken(workspace: Path, call: Call, kill: Tool, output: Tool) -> None:
    record = begin(workspace, "sleep 100")
    stranger = subprocess.Popen(["sleep", "100"], start_new_session=True)  # noqa: ASYNC220 - starts at once
    for forged in (
        {"pid": stranger.pid},  # another process has the number now
        {"identity": record.identity + "1"},  # the number is ours, the process is a later one
        {"pid": stranger.pid, "identity": (identity_of(stranger.pid) or record).__dict__["start"]},  # written by hand
    ):
        path = workspace / background_records.FOLDER / "b2.json"
        path.write_text(record.model_copy(update={"id": "b2", **forged}).model_dump_json())
        assert "ran no more" in (await call(kill, id="b2")).text
        assert "nobody knows how" in (await call(output, id="b2")).text
    assert await end_background(workspace) == ["b1"]
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


async def test_nothing_runs_of_which_there_is_no_record(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(background, "write", fail)
    with pytest.raises(OSError, match="disk full"):
        begin(workspace, "echo ran > ran")
    monkeypatch.undo()
    assert await background.until(lambda: not find_wrappers(workspace), 5)
    assert not (workspace / "ran").exists()


def find_wrappers(workspace: Path) -> list[str]:
    listed = subprocess.run(["ps", "-eww", "-o", "stat=,args="], capture_output=True, text=True).stdout
    return [row for row in listed.splitlines() if str(workspace) in row and not row.startswith("Z")]


# TRAPS, Life and death: children "are runs that can be listed, inspected, cancelled", also after a kill -9.
async def test_it_survives_the_death_of_the_service_and_is_found_again(
    workspace: Path, call: Call, output: Tool, kill: Tool
) -> None:
    os.mkfifo(workspace / "gate")
    script = (
        "import os, sys, signal; from datetime import UTC, datetime; from pathlib import Path\n"
        "from tools.background import plan, start\n"
        "root = Path(sys.argv[1])\n"
        "for command in ('read x < gate; exit 5', 'sleep 100'):\n"
        "    planned = plan(root, command, datetime.now(UTC))\n"
        "    start(root, planned, ['bash', '-c', command], root, {'PATH': os.environ['PATH']})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(workspace)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert running(workspace) == ["b1", "b2"]
    await asyncio.to_thread((workspace / "gate").write_text, "\n")
    assert "[b1: exit code 5]" in (await call(output, id="b1", wait_s=20)).text
    assert "ended by bash_kill" in (await call(kill, id="b2")).text
    assert running(workspace) == []


async def test_a_calm_stop_ends_all_and_says_so(workspace: Path, call: Call, bash: Tool, output: Tool) -> None:
    for _ in range(3):
        begin(workspace, "sleep 100")
    assert await end_background(workspace) == ["b1", "b2", "b3"]
    assert await end_background(workspace) == []
    assert (await call(output)).text.count("killed by SIGTERM; ended when the service stopped") == 3
    assert await end_background(workspace / "none") == []


async def test_no_secret_is_shown(call: Call, bash: Tool, output: Tool, workspace: Path) -> None:
    (workspace / "keys").write_text(f"{SECRET}\napi_key=abcdefgh12345678\nsk-abcdefghijklmn\nplain\n")
    shown = [await call(bash, command="cat keys"), await call(bash, command=f"cat keys # {SECRET}", background=True)]
    shown += [await call(output, id="b1", wait_s=5), await call(output)]
    for result in shown:
        assert SECRET not in result.text and "abcdefgh" not in result.text
    assert "***\napi_key=***\nsk-***\nplain" in shown[0].text


# TRAPS, Context: "280 KB tool output, ANSI screens".
async def test_much_output_is_shown_from_its_end_and_clean(call: Call, bash: Tool, output: Tool) -> None:
    await call(bash, command=r"seq 1 60000; printf '\033[31mred\033[0m\0 1%%\r2%%\n'", background=True)
    text = (await call(output, id="b1", wait_s=10, lines=3)).text
    assert text.startswith(
        "[... earlier output left out ...]\n59999\n60000\n2%\n[b1: exit code 0; 348.9 KB of output in"
    )
    assert len((await call(output, id="b1", lines=1000)).text.encode()) < 14_000


async def test_a_flood_is_stopped_before_the_disk_is_full(
    call: Call, bash: Tool, output: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "_SCRIPT", background._SCRIPT.replace("2000000", "100"))
    await call(bash, command="yes", background=True)
    assert "exit code 153, killed by SIGXFSZ; 102.4 KB" in (await call(output, id="b1", wait_s=20)).text


async def test_there_is_an_end_to_how_many_run_and_are_kept(
    call: Call, bash: Tool, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MAX_RUNNING", 1)
    monkeypatch.setattr(background, "KEPT_ENDED", 2)
    begin(workspace, "sleep 100")
    result = await call(bash, command="true", background=True)
    assert not result.ok and "1 background commands run already; end one with bash_kill" in result.text
    await end_background(workspace)
    for _ in range(4):
        begin(workspace, "true")
        await background.until(lambda: not running(workspace), 5)
    assert [record.id for record in records(workspace)] == ["b3", "b4", "b5"]
    assert not (workspace / background_records.FOLDER / "b1.log").exists()


async def test_odd_files_in_the_folder_do_no_harm(workspace: Path, call: Call, output: Tool) -> None:
    place = workspace / background_records.FOLDER
    place.mkdir(parents=True)
    for name, content in {
        "b1": "{broken",
        "b2": json.dumps({"id": "b3", "pid": 1}),
        "b4": json.dumps({"id": "b4", "pid": -1, "identity": "", "command": "", "since": NOW.isoformat()}),
        "b5": json.dumps({"id": "b5", "pid": 1, "identity": "", "command": "", "since": NOW.isoformat()}),
    }.items():
        (place / f"{name}.json").write_text(content)
    (place / "b6.json").symlink_to("/etc/passwd")
    (place / "bx.json").mkdir()
    assert (await call(output)).text == "There are no background commands."
    assert begin(workspace, "true").id == "b1"


async def test_a_folder_that_leads_out_is_not_used(workspace: Path, call: Call, bash: Tool) -> None:
    (workspace / ".moab").mkdir()
    (workspace / background_records.FOLDER).symlink_to(workspace.parent)
    result = await call(bash, command="true", background=True)
    assert not result.ok and "leads outside the workspace" in result.text
    assert await end_background(workspace) == []


@pytest.mark.parametrize("rg", [ripgrep({}), None], ids=["ripgrep", "stand-in"])
async def test_searches_leave_the_output_out_unless_it_is_asked_for(
    workspace: Path, call: Call, bash: Tool, rg: Path | None
) -> None:
    await call(bash, command="echo needle", background=True)
    assert "No line" in (await call(grep_tool(rg), pattern="needle")).text
    assert "b1.log" in (await call(grep_tool(rg), pattern="needle", path=".moab/background", glob="*.log")).text


async def test_no_descriptor_is_left_open(workspace: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    begin(workspace, "true")
    with pytest.raises((BadInput, OSError, ValueError)):
        begin(workspace, "echo a\0b")
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_present_process_is_known_and_a_dead_one_is_not() -> None:
    mine = identity_of(os.getpid())
    assert mine and mine == identity_of(os.getpid()) and "python" in mine.arguments
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identity_of(child.pid) is None  # a zombie
    child.wait()
    assert identity_of(2**22 + 1) is None


def test_without_proc_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_BOOT", Path("/nowhere"))
    mine = identity.identity_of(os.getpid())
    assert mine and mine == identity.identity_of(os.getpid()) and "python" in mine.arguments
    assert identity.identity_of(2**22 + 1) is None
