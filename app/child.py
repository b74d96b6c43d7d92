"""The end of a child process that leaves when its stdin closes."""

import asyncio
import contextlib

STOP_WITHIN_S = 3.0


async def end_child(process: asyncio.subprocess.Process) -> None:
    """Close the child's stdin, which tells it to leave, and insist if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_WITHIN_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
