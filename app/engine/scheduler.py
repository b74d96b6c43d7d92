"""What is due when: sleeps until the next due moment or a wake-up, and never polls while idle."""

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections.abc import Callable

from app.engine.clock import Clock, to_ms

log = logging.getLogger("moab.engine")
#: The wall clock may jump (a suspended machine): with something due later, look at it at least this often.
MAX_SLEEP_S = 60.0
_COMPACT_FROM = 100
#: The clock is taken to have been set back, not to have been corrected a little, from here on.
_JUMP_BACK_MS = 2_000


class Timer:
    """One planned action. Cancelling lets go of everything the action refers to."""

    __slots__ = ("_scheduler", "action", "due_ms")

    def __init__(self, scheduler: "Scheduler", due_ms: int, action: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self.due_ms = due_ms
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Do nothing when the moment comes; harmless after it came."""
        if self.action is not None:
            self.action = None
            self._scheduler.forget()


class Scheduler:
    """A heap of actions by due moment. An action must not raise and must not block.

    `on_jump_back` is told when the clock was set back, with the milliseconds that it lost.
    """

    def __init__(self, clock: Clock, on_jump_back: Callable[[int], None] = lambda lost_ms: None) -> None:
        self._clock = clock
        self._on_jump_back = on_jump_back
        self._latest_ms = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._cancelled = 0
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def at(self, due_ms: int, action: Callable[[], None]) -> Timer:
        """Do `action` at `due_ms` or as soon after it as possible."""
        timer = Timer(self, due_ms, action)
        heapq.heappush(self._heap, (due_ms, next(self._order), timer))
        if self._heap[0][2] is timer:
            self._wake.set()
        return timer

    def forget(self) -> None:
        """A timer was cancelled: once most are, the heap is built anew, so that long time-outs do not pile up."""
        self._cancelled += 1
        if self._cancelled > _COMPACT_FROM and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="engine-scheduler")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def fire_due(self) -> bool:
        """Do everything that is due now; returns whether there was anything."""
        now_ms, fired = to_ms(self._clock.now()), False
        lost_ms, self._latest_ms = self._latest_ms - now_ms, now_ms
        if lost_ms >= _JUMP_BACK_MS:
            log.warning("The clock was set back by %.1f s.", lost_ms / 1000)
            self._on_jump_back(lost_ms)
        while self._heap and self._heap[0][0] <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            action, timer.action = timer.action, None
            if action is None:
                self._cancelled -= 1
                continue
            fired = True
            try:
                action()
            except Exception:
                log.exception("A due action failed; it is taken up again at the next start.")
        return fired

    async def _run(self) -> None:
        while True:
            self.fire_due()
            self._wake.clear()
            if not self._heap:
                await self._wake.wait()
                continue
            wait_s = (self._heap[0][0] - to_ms(self._clock.now())) / 1000
            await self._sleep(min(max(wait_s, 0.0), MAX_SLEEP_S))

    async def _sleep(self, seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        sleeping.add_done_callback(self._slept)
        try:
            await self._wake.wait()
        finally:
            sleeping.cancel()

    def _slept(self, sleeping: "asyncio.Future[None]") -> None:
        if not sleeping.cancelled():
            self._wake.set()
