"""A child process in a group of its own, read as it writes and ended as a whole."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

READ_BYTES = 65_536
DRAIN_BYTES = 1_048_576
TERMINATE_GRACE_S = 0.3


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative: the signal that killed it), and whether we ended it."""

    exit_code: int
    timed_out: bool = False
    stopped: bool = False
    group: int = 0

    def group_lives(self) -> bool:
        """Whether background children of the process are still there."""
        try:
            os.killpg(self.group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


OnOutput = Callable[[bytes], bool]
"""Takes the next piece of output; answers False when it has enough, which ends the process group."""


async def run_process(
    argv: Sequence[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_output: OnOutput,
    timeout_s: float,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> Ended:
    """Run `argv` with output and errors in one stream and nothing to read, for at most `timeout_s` seconds.

    `stdin` is a descriptor of a file where there is something to read after all.

    The end of the process ends the wait, whoever else still holds its output. A time-out, an `on_output` that has
    enough, and a cancellation (raised again) kill the whole group. Raises OSError or ValueError when it cannot start.
    """
    read_end, write_end = os.pipe()
    try:
        process = await _start(argv, cwd, environment, write_end, stdin)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    return await _supervise(process, _Output(read_end, on_output), timeout_s)


async def _start(
    argv: Sequence[str | Path], cwd: Path, environment: Mapping[str, str], output: int, stdin: int
) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(environment),
            stdin=stdin,
            stdout=output,
            stderr=output,
            # A session of its own makes it the leader of a group that takes its children along, and leaves it without
            # a terminal to ask for passwords on.
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # It may run already and have children by now; asyncio, cancelled itself, would kill the leader only.
        starting.add_done_callback(_kill_started)
        await asyncio.wait({starting})
        if _has_started(starting):
            await starting.result().wait()
        raise


def _has_started(starting: "asyncio.Future[asyncio.subprocess.Process]") -> bool:
    return not starting.cancelled() and starting.exception() is None


def _kill_started(starting: "asyncio.Future[asyncio.subprocess.Process]") -> None:
    if _has_started(starting):
        _signal_group(starting.result().pid, signal.SIGKILL)


async def _supervise(process: asyncio.subprocess.Process, output: "_Output", timeout_s: float) -> Ended:
    exited = asyncio.ensure_future(process.wait())
    enough = asyncio.ensure_future(output.enough.wait())
    try:
        done, _ = await asyncio.wait({exited, enough}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if exited not in done:
            await _end_group(process.pid, exited)
        output.drain()
        stopped = output.enough.is_set()
        return Ended(await exited, timed_out=not done, stopped=stopped, group=process.pid)
    except asyncio.CancelledError:
        await _end_group(process.pid, exited)
        raise
    finally:
        enough.cancel()
        output.close()


async def _end_group(group: int, exited: "asyncio.Future[int]") -> None:
    try:
        _signal_group(group, signal.SIGTERM)
        await asyncio.wait({exited}, timeout=TERMINATE_GRACE_S)
    finally:
        # Also after the leader went quietly: its children may have ignored the polite signal.
        _signal_group(group, signal.SIGKILL)
    await exited


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


class _Output:
    """The read end of the pipe. Reading is not tied to its end, which a background child can keep open for ever."""

    def __init__(self, descriptor: int, on_output: OnOutput) -> None:
        self.enough = asyncio.Event()
        self._descriptor = descriptor
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def _read(self) -> int:
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return 0
        if not data or not self._on_output(data):
            self._loop.remove_reader(self._descriptor)
            if data:
                self.enough.set()
        return len(data)

    def drain(self) -> None:
        """Take what the process wrote before it ended and nobody has read yet; a pipe holds at most DRAIN_BYTES."""
        taken = 0
        while not self.enough.is_set() and taken < DRAIN_BYTES and (count := self._read()):
            taken += count

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
