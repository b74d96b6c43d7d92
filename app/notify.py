"""Wake-up hints for those who wait for a change in the database; the database stays the only truth."""

import asyncio
from collections import defaultdict

PAUSE_WHEN_CLOSED_S = 0.05


SHOW_EVERY_CHARS = 24


class Notifier:
    """Publishing wakes waiters of the same key in this process; waiters in other processes wake by their time-out."""

    def __init__(self) -> None:
        self._partial: dict[str, str] = {}
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.closed = False
        """Set at shutdown: whoever waits for a client's sake answers now with what there is."""

    def show(self, key: str, text: str) -> None:
        """Show the beginning of an answer that is being written; waiters wake when some more of it is there."""
        if len(text) - len(self._partial.get(key, "")) >= SHOW_EVERY_CHARS:
            self._wake(key)
            self._partial[key] = text

    def partial(self, key: str) -> str:
        """What is shown of the answer being written in this process; "" if none is."""
        return self._partial.get(key, "")

    def publish(self, key: str) -> None:
        """Something was recorded: what was shown before is superseded by it."""
        self._partial.pop(key, None)
        self._wake(key)

    def _wake(self, key: str) -> None:
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
