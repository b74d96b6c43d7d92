"""Live updates: small messages by server-sent events that say what changed; the page fetches the rest itself."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.errors import ServiceUnavailable
from app.notify import Notifier
from app.web.desk import Desk

MAX_STREAMS = 64
GATHER_S = 0.1
"""Changes within this time go out as one message."""
LOOK_EVERY_S = 1.0
"""How soon a stream notices that its reader has gone; only the socket tells."""
REMIND_EVERY = 15
"""After so many looks without news a comment is sent, so that nothing on the way gives the stream up."""
MANY = 100
"""From this many changed runs on, a message says only that much changed."""
SHUTDOWN = "live streams"
"""Nobody publishes under this key: whoever waits for it wakes at shutdown alone."""

Changed = dict[str, Any]
Looks = AsyncGenerator[Changed | None, None]
"""What changed since the last look, or None."""


class Live:
    """Hands out at most MAX_STREAMS streams; all end at shutdown, because the service waits for them."""

    def __init__(self, desk: Desk | None, notifier: Notifier) -> None:
        self._desk, self._notifier = desk, notifier
        self.open_streams = 0

    def answer(self, session: str | None) -> Response:
        """A stream of what changes in a session, or of runs. Raises ServiceUnavailable when there are too many."""
        if self._notifier.closed or self.open_streams >= MAX_STREAMS:
            raise ServiceUnavailable("There are too many live pages; close some.")
        return EventStream(self, (lambda: self._session(session)) if session is not None else self._runs)

    @property
    def closed(self) -> bool:
        return self._notifier.closed

    async def _session(self, key: str) -> Looks:
        waiting = self._change(key)
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=LOOK_EVERY_S)
                if not done:
                    yield None
                    continue
                waiting = self._change(key)  # before the reader is told: what changes from then on is told again
                yield {"session": key}
                await asyncio.sleep(GATHER_S)
        finally:
            waiting.cancel()

    def _change(self, key: str) -> "asyncio.Task[None]":
        return asyncio.create_task(self._notifier.wait(key, LOOK_EVERY_S * REMIND_EVERY))

    async def _runs(self) -> Looks:
        changes = self._desk.changes() if self._desk is not None else _nothing()
        upcoming = asyncio.ensure_future(anext(changes, None))
        try:
            while True:
                pause = asyncio.ensure_future(self._notifier.wait(SHUTDOWN, LOOK_EVERY_S))
                await asyncio.wait({upcoming, pause}, return_when=asyncio.FIRST_COMPLETED)
                pause.cancel()
                if not upcoming.done():
                    yield None
                    continue
                await self._notifier.wait(SHUTDOWN, GATHER_S)
                runs: dict[str, None] = {}
                while upcoming.done():
                    run_id = upcoming.result()
                    if run_id is None:
                        return
                    runs[run_id] = None
                    upcoming = asyncio.ensure_future(anext(changes, None))
                    await asyncio.sleep(0)
                yield {"runs": list(runs) if len(runs) < MANY else None}
        finally:
            upcoming.cancel()
            await asyncio.wait({upcoming})
            await changes.aclose()


class EventStream(Response):
    """One open stream. It ends when its reader goes, when the service stops, or when nothing more can change."""

    def __init__(self, live: Live, looks: Callable[[], Looks]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
        super().__init__(media_type="text/event-stream", headers=headers)
        del self.headers["content-length"]
        self._live, self._looks = live, looks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        gone = asyncio.ensure_future(_gone(receive))
        self._live.open_streams += 1
        try:
            await self._tell(send, gone)
        finally:
            self._live.open_streams -= 1
            gone.cancel()
        if not gone.done() or gone.cancelled():
            await send({"type": "http.response.body", "body": b""})

    async def _tell(self, send: Send, gone: "asyncio.Future[None]") -> None:
        await _say(send, "retry: 2000\n\n")
        quiet = 0
        async with contextlib.aclosing(self._looks()) as looks:
            async for changed in looks:
                quiet = 0 if changed else quiet + 1
                if gone.done() or self._live.closed:
                    return
                if changed:
                    await _say(send, f"event: changed\ndata: {json.dumps(changed)}\n\n")
                elif quiet % REMIND_EVERY == 0:
                    await _say(send, ": still here\n\n")


async def _say(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _nothing() -> AsyncGenerator[str, None]:
    await asyncio.Event().wait()
    yield ""
