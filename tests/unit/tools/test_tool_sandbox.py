"""Commands behind walls, with the real bubblewrap; skipped where it is not there or cannot work."""

import asyncio
import os
import shutil
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from app.agent.approvals.policy import Policy
from app.agent.approvals.request import _verdict
from app.agent.tool import Tool, ToolResult
from app.errors import BadInput, ConfigError
from tests.unit.house import flow
from tests.unit.tools.test_tool_background import is_running, records
from tests.unit.tools.test_tool_shell import dies
from tools.background import end_background, until
from tools.background_tools import background_tools
from tools.sandbox import NO_SANDBOX, Bubblewrap, make_sandbox, why_not
from tools.shell import bash_tool
from tools.toolbox import make_toolbox

Call = Callable[..., Coroutine[Any, Any, ToolResult]]
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


@pytest.fixture
def walls(workspace: Path) -> Bubblewrap:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed (Debian: apt install bubblewrap)")
    found = Bubblewrap(program)
    if fault := why_not(found, workspace):
        pytest.skip(f"bubblewrap cannot work here: {fault}")
    return found


@pytest.fixture
def bash(walls: Bubblewrap) -> Tool:
    return bash_tool(ENVIRONMENT, sandbox=walls)


async def test_commands_work_and_write_in_the_workspace(call: Call, bash: Tool, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    result = await call(bash, command="echo hi > made.txt && pwd && exit 3", workdir="sub")
    assert result.text == f"{workspace}/sub\n[exit code 3]" and not result.ok
    assert (workspace / "sub" / "made.txt").read_text() == "hi\n"
    tools = "seq 3 | sort -r | head -1; python3 -c 'print(6 * 7)' || echo no python; getent passwd root | cut -d: -f1"
    assert (await call(bash, command=tools)).text.startswith("3\n")


async def test_nothing_else_can_be_written_or_seen(call: Call, bash: Tool, workspace: Path) -> None:
    secret = workspace.parent / "secret.txt"
    secret.write_text("a key")
    writes = f"echo x > {secret}; echo x > {secret.parent}/new; echo x > /usr/new"
    result = await call(bash, command=f"cat {secret}; {writes}; ls /root /home /etc/shadow; ls /usr/new")
    assert not result.ok and "a key" not in result.text
    assert secret.read_text() == "a key" and not (workspace.parent / "new").exists()
    for line in ("/root", "/home", "/etc/shadow", "/usr/new"):
        assert f"'{line}': No such file" in result.text


async def test_the_policy_can_be_neither_written_nor_made(call: Call, bash: Tool, workspace: Path) -> None:
    attack = "echo '[tools]' > policy.toml; rm -f policy.toml; mv policy.toml x; ln -sf x policy.toml; cat policy.toml"
    await call(bash, command=attack)
    assert (workspace / "policy.toml").read_text() == "", "as good as none"
    (workspace / "policy.toml").write_text("# mine\n")
    assert "# mine" in (await call(bash, command=attack)).text
    assert (workspace / "policy.toml").read_text() == "# mine\n"
    (workspace / "policy.toml").unlink()
    (workspace / "policy.toml").symlink_to(workspace / "elsewhere")
    assert "is a link" in (await call(bash, command="true")).text


async def test_there_is_no_network_unless_it_is_let_in(call: Call, walls: Bubblewrap) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        knock = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo in"
        assert "in\n" not in (await call(bash_tool(ENVIRONMENT, sandbox=walls), command=knock)).text
        opened = Bubblewrap(walls.program, network=True)
        assert (await call(bash_tool(ENVIRONMENT, sandbox=opened), command=knock)).text == "in\n[exit code 0]"


async def test_other_processes_are_not_there(call: Call, bash: Tool) -> None:
    result = await call(bash, command=f"kill -0 {os.getpid()}; ls -d /proc/[0-9]* | wc -l")
    assert "No such process" in result.text and int(result.text.splitlines()[-2]) < 6


async def test_more_folders_can_be_read(call: Call, walls: Bubblewrap, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("there")
    bash = bash_tool(ENVIRONMENT, sandbox=Bubblewrap(walls.program, readable=(str(tmp_path / "data"),)))
    assert (await call(bash, command=f"cat {tmp_path}/data/a")).text == "there\n[exit code 0]"
    assert "Read-only file system" in (await call(bash, command=f"echo x > {tmp_path}/data/a")).text


async def test_what_runs_too_long_or_is_left_running_ends_with_it(call: Call, bash: Tool, workspace: Path) -> None:
    os.mkfifo(workspace / "held")
    stubborn = "trap '' TERM; (setsid bash -c 'exec 3<>held; echo $$ >&3; sleep 100') & sleep 100"
    result = await call(bash, command=stubborn, timeout_s=0.5)
    assert "[killed: not finished after 0.5 s]" in result.text
    assert await until(lambda: not writers(workspace / "held"), 5)
    left = await call(bash, command="(exec 3<>held; sleep 100) & echo done")
    assert left.text == "done\n[exit code 0]"
    assert not writers(workspace / "held")


def writers(fifo: Path) -> bool:
    """Whether any process has the fifo open for reading (one that has it open does both)."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


async def test_in_the_background_too(call: Call, bash: Tool, workspace: Path) -> None:
    output, kill = background_tools()
    secret = workspace.parent / "secret.txt"
    secret.write_text("a key")
    try:
        started = await call(bash, command=f"cat {secret}; echo up; sleep 100", background=True)
        assert "b1: running" in started.text and "up" in started.text and "a key" not in started.text
        (record,) = records(workspace)
        assert is_running(workspace, record)
        assert "ended by bash_kill" in (await call(kill, id="b1")).text
        assert await dies(record.pid)
        await call(bash, command="exit 4", background=True)
        assert "exit code 4" in (await call(output, id="b2", wait_s=5)).text
    finally:
        await end_background(workspace)


async def test_cancelling_leaves_nothing(call: Call, bash: Tool, workspace: Path) -> None:
    os.mkfifo(workspace / "held")
    running = asyncio.create_task(call(bash, command="exec 3<>held; sleep 100"))
    assert await until(lambda: writers(workspace / "held"), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await until(lambda: not writers(workspace / "held"), 5)


@pytest.mark.parametrize(
    ("origin", "network", "verdict"),
    [("telegram", False, "allow"), ("machine", False, "allow"), ("telegram", True, "ask"), ("terminal", True, "allow")],
)
def test_behind_walls_nobody_is_asked(origin: str, network: bool, verdict: str) -> None:
    """With the network a command reaches our own API, where requests are decided."""
    tools = make_toolbox(environment=ENVIRONMENT, sandbox=Bubblewrap("bwrap", network=network)).tools
    assert _verdict(flow("S", policy=Policy(origin=origin)), tools["bash"]) == verdict


def test_a_rule_goes_before_the_walls() -> None:
    tools = make_toolbox(environment=ENVIRONMENT, sandbox=Bubblewrap("bwrap")).tools
    assert _verdict(flow("S", policy=Policy(origin="telegram", rules=({"bash": "ask"},))), tools["bash"]) == "ask"


def test_without_walls_commands_ask() -> None:
    tools = make_toolbox(environment=ENVIRONMENT).tools
    assert _verdict(flow("S", policy=Policy(origin="telegram")), tools["bash"]) == "ask"


def test_one_that_is_asked_for_and_not_there_is_a_clear_error(workspace: Path, tmp_path: Path) -> None:
    assert make_sandbox("none", {}, workspace) is NO_SANDBOX
    with pytest.raises(ConfigError, match=r"bubblewrap is not installed\. Install it"):
        make_sandbox("bwrap", {"PATH": str(tmp_path)}, workspace)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    with pytest.raises(ConfigError, match=r"cannot work here: No permissions .* SANDBOX=none"):
        make_sandbox("bwrap", {"PATH": f"{tmp_path}:/bin:/usr/bin"}, workspace)
    with pytest.raises(ConfigError, match="SANDBOX_READ names /gone, which is no folder"):
        make_sandbox("bwrap", {"PATH": str(tmp_path)}, workspace, readable=["/gone"])


def test_a_policy_that_is_a_link_leaves_a_hole(workspace: Path) -> None:
    (workspace / "policy.toml").symlink_to("/etc/hosts")
    with pytest.raises(BadInput, match="is a link"):
        Bubblewrap("bwrap").argv(["true"], workspace, workspace)
