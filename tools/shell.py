"""The tool that runs shell commands: bash."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import Field

from app.agent.output import clean, whole_characters
from app.agent.tool import Effect, Tool, ToolContext, ToolResult, tool
from app.errors import BadInput
from tools.background import plan, start, until
from tools.background_look import look, told_code
from tools.background_records import is_running
from tools.background_watch import begins, never_began, sightings
from tools.fence import folder
from tools.hiding import Hide, hiding
from tools.process import Ended, run_process
from tools.sandbox import NO_SANDBOX, Sandbox

DEFAULT_TIMEOUT_S = 120.0
MAX_TIMEOUT_S = 600.0
KEPT_BYTES = 262_144
AT_ONCE_S = 0.5
FIRST_LINES = 20
FLOOD_BYTES = 67_108_864

PASSED_ON = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"})
"""What commands see of the service's environment, besides LC_*. Everything else may be a key or a token."""

NOBODY_THERE = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
"""Programs learn that no person sits before them: no colours, no pager, no questions."""


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of `environment` that a command may see."""
    passed = {name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **passed, **NOBODY_THERE}


class HeadAndTail:
    """The first and the last bytes of a stream of any length, and how many there were."""

    def __init__(self, limit_bytes: int) -> None:
        self.total = 0
        self._half = limit_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept as clean text, with a line in the place of what was not."""
        tail = self._tail[-self._half :]
        missing = self.total - len(self._head) - len(tail)
        if missing <= 0:
            return clean((self._head + self._tail).decode(errors="replace"))
        left_out = f"\n[... {missing} bytes were not kept ...]\n"
        return clean(whole_characters(bytes(self._head)) + left_out + whole_characters(bytes(tail)))


def bash_tool(environment: Mapping[str, str], secrets: Sequence[str] = (), sandbox: Sandbox = NO_SANDBOX) -> Tool:
    """The bash tool; commands see `child_environment(environment)` and nothing else of the service's own.

    `secrets` are values that are replaced wherever a command prints them. Commands run in `sandbox`.
    """
    passed, hide = child_environment(environment), hiding(secrets)

    @tool(Effect.UNSAFE, timeout_s=MAX_TIMEOUT_S + 10, contained=sandbox.is_closed)
    async def bash(
        context: ToolContext,
        command: Annotated[str, Field(min_length=1, description="The command line, as for bash -c")],
        timeout_s: Annotated[
            float, Field(gt=0, le=MAX_TIMEOUT_S, description="Seconds after which the command is killed")
        ] = DEFAULT_TIMEOUT_S,
        workdir: Annotated[
            str, Field(description="Folder to run in, relative to the workspace; each command starts anew there")
        ] = ".",
        background: Annotated[
            bool, Field(description="Start it and return at once, for servers and long work; it has no time limit")
        ] = False,
    ) -> ToolResult:
        """Run a bash command in the workspace and return its output (stdout and stderr together) and exit code.

        There is no terminal and no input. Nothing carries over to the next call but files. What was started with
        background=true is looked at with bash_output and ended with bash_kill.
        """
        where = folder(context.workspace, workdir)
        argv = sandbox.argv(["bash", "-c", command], folder(context.workspace, "."), where)
        if background:
            return await _start(context, command, argv, where, passed, hide)
        output = HeadAndTail(KEPT_BYTES)

        def take(data: bytes) -> bool:
            output.feed(data)
            context.progress()
            return output.total <= FLOOD_BYTES

        with _started():
            ended = await run_process(argv, cwd=where, environment=passed, on_output=take, timeout_s=timeout_s)
        printed = hide(output.text()).strip("\n") or "(no output)"
        ok = ended.exit_code == 0 and not (ended.timed_out or ended.stopped)
        return ToolResult(f"{printed}\n[{_outcome(ended, timeout_s)}]", ok=ok)

    return bash


async def _start(
    context: ToolContext, command: str, argv: list[str], where: Path, environment: Mapping[str, str], hide: Hide
) -> ToolResult:
    """It is in the ledger before it runs: whoever dies in between leaves something to ask about."""
    root = context.workspace
    with _started():
        planned = await asyncio.to_thread(plan, root, command, context.clock.now(), context.new_task("b"))
    opening = begins(planned, hide)
    if context.ledger is not None:
        await context.ledger.begin(context.step_key, opening)
    try:
        with _started():
            record = await asyncio.to_thread(start, root, planned, argv, where, environment)
    except BadInput as error:
        return ToolResult(str(error), ok=False, observed=(opening, never_began(planned.task, hide(str(error)))))
    # What fails at once, such as a wrong name, is told at once.
    await until(lambda: not is_running(root, record), AT_ONCE_S)
    seen = await asyncio.to_thread(look, root, record, FIRST_LINES)
    observed = await asyncio.to_thread(sightings, root, record, hide)
    return ToolResult(hide(f"Started {record.id}.\n{seen.text}"), ok=seen.is_well, observed=(opening, *observed))


@contextmanager
def _started() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise BadInput(
            f"the command could not be started ({error}); accepted: a command line without NULs, shorter than "
            "100 KB (put longer scripts into a file)"
        ) from error


def _outcome(ended: Ended, timeout_s: float) -> str:
    if ended.timed_out:
        return f"killed: not finished after {timeout_s:g} s"
    if ended.stopped:
        return f"killed: more than {FLOOD_BYTES} bytes of output"
    code = ended.exit_code
    outcome = told_code(code)
    if ended.group_lives():
        outcome += f"; background processes go on, end them with: kill -- -{ended.group}"
    return outcome
