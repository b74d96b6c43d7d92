"""A clock that runs faster than the machine's, so that a minute of patience costs a test three seconds."""

import asyncio
import time
from datetime import UTC, datetime


class QuickClock:
    """The machine's time, `speed` times as fast since the moment `since` (seconds since 1970), over restarts too."""

    def __init__(self, speed: float, since: float) -> None:
        self._speed = speed
        self._since = since

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._since + (time.time() - self._since) * self._speed, UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)
