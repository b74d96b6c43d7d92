"""The tool that brings a file from the web into the workspace as it is: download."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import httpx
from pydantic import Field

from app.agent.output import clean
from app.agent.tool import Effect, Sighting, Tool, ToolContext, ToolResult, tool
from app.errors import BadInput
from app.files import open_folder
from tools.fence import explained, inside, shown
from tools.files import FilePath
from tools.guard import Address, Resolver, is_public, resolve
from tools.sniff import size
from tools.web import REDIRECTS, URL_CHARACTERS, checked_url, web_client

LONGEST_S = 3600.0
IDLE_S = 30.0
MAX_BYTES = 1_000_000_000
TRY_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class _Came:
    """What came of a download: `status` as the ledger names it, the bytes that came, how many were promised (None: not
    said), and why it is not there. `is_final`: the same again would be the same.
    """

    status: str
    got: int = 0
    expected: int | None = None
    why: str = ""
    is_final: bool = False


def download_tool(
    *, resolver: Resolver = resolve, permits: Callable[[Address], bool] = is_public, idle_s: float = IDLE_S
) -> Tool:
    """The download tool; the arguments are seams for tests, as those of web_fetch."""

    @tool(Effect.IDEMPOTENT, timeout_s=LONGEST_S)
    async def download(
        context: ToolContext,
        url: Annotated[str, Field(max_length=URL_CHARACTERS, description="Address with http:// or https://")],
        path: FilePath,
    ) -> ToolResult:
        """Download a file of any kind from the web into the workspace, whole or not at all.

        What falls short or does not get on is looked after: you are asked to try it again.
        """
        real = inside(context.workspace, path)
        address = checked_url(url)
        allowed = (lambda _: True) if context.allow_private_hosts else permits
        async with await web_client(resolver, allowed) as client:
            came = await _bring(client, address, real, path, idle_s, context.progress)
        name = shown(context.workspace, real)
        observed = _observed(context, name, address, came)
        if came.status == "completed":
            return ToolResult(f"{name}: {size(came.got)} from {address.host}", observed=observed)
        return ToolResult(f"{clean(url)}: {came.why}. Nothing was written to {name}.", ok=False, observed=observed)

    return download


async def _bring(
    client: httpx.AsyncClient, url: httpx.URL, real: Path, path: str, idle_s: float, progress: Callable[[], None]
) -> _Came:
    """Each wait for more is limited, and never the whole."""
    taken = _Taken(path, real)
    try:
        for _ in range(REDIRECTS + 1):
            headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
            async with client.stream("GET", url, headers=headers, timeout=idle_s, follow_redirects=False) as response:
                if response.next_request is None:
                    return await _take(response, taken, progress)
                url = checked_url(response.next_request.url)
        return _Came("failed", why=f"{url.host} redirects more than {REDIRECTS} times", is_final=True)
    except httpx.TimeoutException:
        return _Came("timeout", taken.got, taken.expected, f"nothing came for {idle_s:g} s, after {taken.sizes}")
    except httpx.RemoteProtocolError as error:
        if taken.expected is None:
            return _Came("failed", why=f"the answer is none ({clean(str(error))})")
        return _Came("incomplete", taken.got, taken.expected, f"the connection ended after {taken.sizes}")
    except httpx.HTTPError as error:
        return _Came("failed", taken.got, why=clean(str(error)) or "the connection failed")


class _Taken:
    """A file that comes: how much of it is there."""

    def __init__(self, path: str, real: Path) -> None:
        self.path, self.real = path, real
        self.got = 0
        self.expected: int | None = None

    @property
    def sizes(self) -> str:
        return size(self.got) + (f" of {size(self.expected)}" if self.expected is not None else "")


async def _take(response: httpx.Response, taken: _Taken, progress: Callable[[], None]) -> _Came:
    if response.status_code >= 400:
        why = f"the server answered with status {response.status_code}"
        return _Came("failed", why=why, is_final=response.status_code not in TRY_LATER)
    length = response.headers.get("content-length", "")
    taken.expected = int(length) if length.isdecimal() else None
    if (taken.expected or 0) > MAX_BYTES:
        return _Came("failed", 0, taken.expected, f"it has {size(taken.expected or 0)}; {LIMIT}", is_final=True)
    with _coming(taken.path, taken.real) as (file, keep):
        async for part in response.aiter_raw():
            await asyncio.to_thread(file.write, part)
            taken.got += len(part)
            progress()
            if taken.got > MAX_BYTES:
                return _Came("failed", taken.got, None, f"it has more; {LIMIT}", is_final=True)
        await asyncio.to_thread(keep)
    return _Came("completed", taken.got, taken.expected)


LIMIT = f"at most {size(MAX_BYTES)} are taken"


@contextlib.contextmanager
def _coming(name: str, real: Path) -> Iterator[tuple[BinaryIO, Callable[[], None]]]:
    """A file beside `real` to write into, and what moves it there once it is whole; else it is gone in the end."""
    with explained(name, real):
        if real.is_dir():
            raise BadInput(f"{name} is a folder; accepted: the path of a file")
        folder = open_folder(real.parent, create=True)
    temporary = f".{real.name}.coming"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with explained(name, real), os.fdopen(os.open(temporary, flags, 0o644, dir_fd=folder), "wb") as file:

            def keep() -> None:
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, real.name, src_dir_fd=folder, dst_dir_fd=folder)

            yield file, keep
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        os.close(folder)


def _observed(context: ToolContext, name: str, url: httpx.URL, came: _Came) -> tuple[Sighting, ...]:
    """The download as a tracked task: the same again is the same task, which is then done, or still blocked."""
    task = "d" + hashlib.sha256(f"{context.session_id}:{url}:{name}".encode()).hexdigest()[:10]
    source = url.host
    data: dict[str, Any] = {"path": name, "status": came.status, "bytes": came.got}
    data |= {"expected_bytes": came.expected} if came.expected is not None else {}
    begun = Sighting(task, "STARTED", source=source, data={"goal": f"download {url} to {name}"})
    seen = Sighting(task, "DOWNLOAD_OBSERVED", source=source, summary=came.why, data=data)
    if came.status == "completed":
        return begun, seen, Sighting(task, "TASK_COMPLETED", source=source)
    if came.is_final:
        final = {"reason": "EXECUTION_ERROR", "final": True}
        return begun, seen, Sighting(task, "BLOCKED_CONFIRMED", source=source, summary=came.why, data=final)
    return begun, seen
