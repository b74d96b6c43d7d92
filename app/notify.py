"""Wake-up hints for those who wait for a change in the database; the database stays the only truth."""

import asyncio
from collections import defaultdict

PAUSE_WHEN_CLOSED_S = 0.05


class Notifier:
    """Publishing wakes waiters of the same key in this process; waiters in other processes wake by their time-out."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.closed = False
        """Set at shutdown: whoever waits for a client's sake answers now with what there is."""

    def publish(self, key: str) -> None:
        for event in self._waiting.get(key, ()):
            event.set()

    def close(self) -> None:
        """Wake everybody; from now on a wait is only a short pause."""
        self.closed = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def wait(self, key: str, seconds: float) -> None:
        """Return after the next `publish(key)`, or after `seconds` at the latest."""
        if self.closed:
            await asyncio.sleep(min(seconds, PAUSE_WHEN_CLOSED_S))
            return
        event = asyncio.Event()
        self._waiting[key].add(event)
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
        finally:
            self._waiting[key].discard(event)
            if not self._waiting[key]:
                del self._waiting[key]
