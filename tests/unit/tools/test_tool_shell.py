"""bash: output, time limits, killing, what commands see."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.tool import Tool, ToolResult
from tools import shell
from tools.shell import HeadAndTail, bash_tool, child_environment

Call = Callable[..., Coroutine[Any, Any, ToolResult]]


@pytest.fixture
def bash() -> Tool:
    return bash_tool({"PATH": os.environ["PATH"], "HOME": "/nowhere", "OPENAI_API_KEY": "sk-secret"})


def lives(pid: int) -> bool:
    """Whether `pid` still runs; a zombie that nobody has collected yet does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def dies(pid: int) -> bool:
    """Waits until `pid` is gone; the kernel tells."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(watch, gone.set)
    try:
        await asyncio.wait_for(gone.wait(), 5)
    finally:
        asyncio.get_running_loop().remove_reader(watch)
        os.close(watch)
    return True


async def test_output_and_errors_come_in_order_with_the_exit_code(call: Call, bash: Tool) -> None:
    result = await call(bash, command="echo one; echo two >&2; echo three; exit 3")
    assert (result.ok, result.text) == (False, "one\ntwo\nthree\n[exit code 3]")
    assert await call(bash, command="true") == ToolResult("(no output)\n[exit code 0]")
    assert (await call(bash, command="kill -9 $$")).text == "(no output)\n[exit code -9, killed by SIGKILL]"
    assert "[exit code 143, killed by SIGTERM]" in (await call(bash, command="bash -c 'kill $$'; exit $?")).text


async def test_it_runs_in_the_workspace_or_a_folder_of_it(call: Call, bash: Tool, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    assert (await call(bash, command="pwd")).text.startswith(f"{workspace}\n")
    assert (await call(bash, command="pwd", workdir="sub")).text.startswith(f"{workspace}/sub\n")
    assert "outside the workspace" in (await call(bash, command="pwd", workdir="..")).text
    assert "no such file or folder" in (await call(bash, command="pwd", workdir="none")).text


async def test_commands_do_not_see_the_secrets_of_the_service(call: Call, bash: Tool) -> None:
    text = (await call(bash, command="env")).text
    assert "HOME=/nowhere" in text and "TERM=dumb" in text
    assert "secret" not in text


@given(st.dictionaries(st.text(), st.text()))
def test_only_named_variables_are_passed_on(environment: dict[str, str]) -> None:
    passed = child_environment(environment)
    assert all(n in shell.PASSED_ON | shell.NOBODY_THERE.keys() or n.startswith("LC_") for n in passed)


async def test_nothing_waits_for_input(call: Call, bash: Tool) -> None:
    assert (await call(bash, command="cat; read x; echo got=$x", timeout_s=5)).text == "got=\n[exit code 0]"


# TRAPS, Tools: "A tool that hangs holds the turn -> time limit per tool, process group killed".
async def test_a_hanging_command_is_killed_with_its_grandchildren(call: Call, bash: Tool, workspace: Path) -> None:
    stubborn = "bash -c 'trap \"\" TERM; echo $BASHPID > pid; while :; do sleep 100; done' & echo started; wait"
    result = await call(bash, command=stubborn, timeout_s=0.3)
    assert (result.ok, result.text) == (False, "started\n[killed: not finished after 0.3 s]")
    assert await dies(int((workspace / "pid").read_text()))


async def test_a_command_that_ends_well_when_asked_to_end_has_still_failed(call: Call, bash: Tool) -> None:
    result = await call(bash, command="trap 'echo bye; exit 0' TERM; sleep 100 & wait", timeout_s=0.2)
    assert (result.ok, result.text) == (False, "bye\n[killed: not finished after 0.2 s]")


async def test_cancellation_kills_the_group_and_is_raised_again(call: Call, bash: Tool, workspace: Path) -> None:
    os.mkfifo(workspace / "pid")
    running = asyncio.create_task(call(bash, command="(echo $BASHPID > pid; exec sleep 100) & wait"))
    pid = int(await asyncio.to_thread((workspace / "pid").read_text))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await dies(pid)


@pytest.mark.parametrize("turns_of_the_loop", range(8))
async def test_a_cancellation_at_any_moment_of_the_start_leaves_nothing(
    call: Call, bash: Tool, workspace: Path, turns_of_the_loop: int
) -> None:
    os.mkfifo(workspace / "held")
    reader = os.open(workspace / "held", os.O_RDONLY | os.O_NONBLOCK)
    running = asyncio.create_task(call(bash, command="exec 3> held; echo x >&3; (sleep 100; sleep 100) & wait"))
    for _ in range(turns_of_the_loop):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await is_let_go(reader)
    os.close(reader)


async def is_let_go(reader: int) -> bool:
    """Waits until no process has the other end of `reader` any more."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(reader, readable.set)
    try:
        async with asyncio.timeout(5):
            while True:
                try:
                    if not os.read(reader, 100):
                        return True
                except BlockingIOError:
                    readable.clear()
                    await readable.wait()
    finally:
        loop.remove_reader(reader)


async def test_a_background_child_that_holds_the_output_does_not_hold_the_tool(
    call: Call, bash: Tool, workspace: Path
) -> None:
    result = await call(bash, command="sleep 100 & echo $! > pid; echo done", timeout_s=20)
    pid = int((workspace / "pid").read_text())
    group = os.getpgid(pid)
    assert result.text == f"done\n[exit code 0; background processes go on, end them with: kill -- -{group}]"
    assert lives(pid)
    os.killpg(group, signal.SIGKILL)
    assert await dies(pid)


# TRAPS, Context: "280 KB tool output ... fill the window"; Tools: "Whole body read into memory".
async def test_long_output_keeps_its_head_and_tail(call: Call, bash: Tool) -> None:
    text = (await call(bash, command="seq 1 60000")).text
    assert text.startswith("1\n2\n") and text.endswith("\n60000\n[exit code 0]")
    assert "bytes were not kept" in text
    assert len(text) < shell.KEPT_BYTES + 200


async def test_endless_output_is_stopped(call: Call, bash: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "FLOOD_BYTES", 1_000_000)
    result = await call(bash, command="yes")
    assert not result.ok
    assert result.text.endswith("[killed: more than 1000000 bytes of output]")
    assert len(result.text) < shell.KEPT_BYTES + 200


async def test_the_event_loop_goes_on_while_a_command_runs(call: Call, bash: Tool) -> None:
    running = asyncio.create_task(call(bash, command="read < go; echo went"))
    beats = 0
    while not running.done():
        await asyncio.sleep(0)
        beats += 1
        if beats == 100:
            assert (await call(bash, command="true")).ok
    assert "No such file" in (await running).text


# TRAPS, Context: "ANSI screens".
async def test_output_is_cleaned(call: Call, bash: Tool) -> None:
    result = await call(bash, command=r"printf '\033[31mred\033[0m\0 10%%\r20%%\r\xff\n'")
    assert result.text == "\ufffd\n[exit code 0]"
    assert (await call(bash, command=r"printf '\033[31mred\033[0m\0!\n'")).text == "red!\n[exit code 0]"


@pytest.mark.parametrize("command", ["echo a\0b", "x" * 200_000])
async def test_what_cannot_be_started_is_explained(call: Call, bash: Tool, command: str) -> None:
    result = await call(bash, command=command)
    assert not result.ok
    assert "could not be started" in result.text and "accepted: a command line" in result.text


async def test_no_descriptor_is_left_open(call: Call, bash: Tool) -> None:
    await call(bash, command="true")
    before = len(os.listdir("/proc/self/fd"))
    for command in ("true", "sleep 100 & true", "echo a\0b", "yes"):
        result = await call(bash, command=command, timeout_s=0.1)
        if "kill -- -" in result.text:
            os.killpg(int(result.text.rsplit("-", 1)[1].rstrip("]")), signal.SIGKILL)
    assert len(os.listdir("/proc/self/fd")) == before


@given(st.lists(st.binary(max_size=30)), st.integers(2, 40))
def test_head_and_tail_count_every_byte(pieces: list[bytes], limit: int) -> None:
    kept = HeadAndTail(limit)
    for piece in pieces:
        kept.feed(piece)
    assert kept.total == sum(map(len, pieces))
    assert len(kept._head) + len(kept._tail[-(limit // 2) :]) <= limit
    whole = b"".join(pieces)
    if len(whole) <= limit // 2 * 2:
        assert "not kept" not in kept.text()
        assert bytes(kept._head + kept._tail) == whole
