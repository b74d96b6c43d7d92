"""Tells watchers which runs changed: cheap, bounded, and lossy for those who do not keep up."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from app.engine.model import Run

_BACKLOG = 1_000


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run of a function changed and now has this status; a step of it may have changed only."""

    run_id: str
    function: str
    status: str


class Feed:
    """Every watcher has a backlog of its own, by run: of several changes of one run it may see only the last."""

    def __init__(self) -> None:
        self._watchers: set[_Watcher] = set()

    def publish(self, runs: Iterable[Run]) -> None:
        """These runs changed, and that is on disk."""
        for watcher in self._watchers:
            watcher.tell(runs)

    async def changes(self) -> AsyncIterator[RunChange]:
        """What changes from now on; ends with `close`."""
        watcher = _Watcher()
        self._watchers.add(watcher)
        try:
            while (change := await watcher.next()) is not None:
                yield change
        finally:
            self._watchers.discard(watcher)

    def close(self) -> None:
        """Nothing changes any more."""
        for watcher in self._watchers:
            watcher.end()


class _Watcher:
    def __init__(self) -> None:
        self._backlog: dict[str, RunChange] = {}
        self._news = asyncio.Event()
        self._ended = False

    def tell(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self._backlog.pop(run.id, None)
            self._backlog[run.id] = RunChange(run.id, run.function, run.status)
        while len(self._backlog) > _BACKLOG:
            del self._backlog[next(iter(self._backlog))]
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def next(self) -> RunChange | None:
        while not self._backlog:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        return self._backlog.pop(next(iter(self._backlog)))
