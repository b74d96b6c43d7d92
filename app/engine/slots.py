"""The slots of concurrency limits: who has one, who waits for one and in which order; memory only, no I/O.

After a restart nobody has a slot: calls that were in flight come back and queue up like the others.
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from app.engine.model import Job
from app.engine.policies.concurrency import Concurrency
from app.engine.policies.priority import place


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that wants a slot of each of `limits`, which are pairs of a key and the limit that it is of."""

    job: Job
    limits: tuple[tuple[str, Concurrency], ...]


class Slots:
    """A call waits in the line of one limit that has no room for it; the line is ordered by priority and age."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self._lines: dict[str, list[tuple[int, str, int, Claim]]] = {}
        self._order = itertools.count()

    def take(self, claim: Claim) -> bool:
        """Take every slot at once, or none and wait; a newcomer does not pass those that wait already."""
        full = self._first_full(claim, newcomer=True)
        if full is None:
            self._hold(claim)
            return True
        self._wait(full, claim)
        return False

    def give_back(self, keys: tuple[str, ...]) -> list[Job]:
        """Slots are free again; returns the calls that have theirs now."""
        for key in keys:
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]
        return [job for key in keys for job in self._admit(key)]

    def _admit(self, key: str) -> Iterator[Job]:
        line = self._lines.get(key)
        while line:
            claim = line[0][3]
            if claim.job.dropped:
                heapq.heappop(line)
                continue
            full = self._first_full(claim, newcomer=False)
            if full == key:
                return
            heapq.heappop(line)
            if full is not None:
                self._wait(full, claim)
                continue
            self._hold(claim)
            yield claim.job
        self._lines.pop(key, None)

    def _first_full(self, claim: Claim, *, newcomer: bool) -> str | None:
        for key, limit in claim.limits:
            if not limit.has_room(self._used.get(key, 0)) or (newcomer and self._lines.get(key)):
                return key
        return None

    def _hold(self, claim: Claim) -> None:
        claim.job.slots = tuple(key for key, _ in claim.limits)
        for key in claim.job.slots:
            self._used[key] = self._used.get(key, 0) + 1

    def _wait(self, key: str, claim: Claim) -> None:
        run = claim.job.run
        entry = (place(run.created_ms, run.priority), run.id, next(self._order), claim)
        heapq.heappush(self._lines.setdefault(key, []), entry)
