"""Who waits for a model that answers one after the other: people go before work that nobody waits for."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class Line:
    """One at a time is let through. Who is urgent goes before all who are not; both keep their own order."""

    def __init__(self) -> None:
        self._is_busy = False
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._patient: deque[asyncio.Future[None]] = deque()

    @contextlib.asynccontextmanager
    async def turn(self, *, urgent: bool) -> AsyncIterator[None]:
        """The block runs alone. May be cancelled at any time, also while it waits."""
        await self._enter(self._urgent if urgent else self._patient)
        try:
            yield
        finally:
            self._call_next()

    async def _enter(self, waiting: "deque[asyncio.Future[None]]") -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        called = asyncio.get_running_loop().create_future()
        waiting.append(called)
        try:
            await called
        except asyncio.CancelledError:
            if called in waiting:
                waiting.remove(called)
            elif not called.cancelled():  # called in the moment it gave up: the next one has its turn
                self._call_next()
            raise

    def _call_next(self) -> None:
        for waiting in (self._urgent, self._patient):
            while waiting:
                called = waiting.popleft()
                if not called.done():
                    called.set_result(None)
                    return
        self._is_busy = False
