"""What a due call must pass before it may be made: pause, throttle (first calls only), concurrency."""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from app.engine.change import Change
from app.engine.functions import Function
from app.engine.live import Live
from app.engine.model import SCHEDULED, Job
from app.engine.policies.priority import place
from app.engine.policies.throttle import Throttle
from app.engine.registry import Registry
from app.engine.scheduler import Timer
from app.engine.slots import Claim, Slots


@dataclass(slots=True)
class _Lane:
    """First calls of one throttle key, in order; `timer` is set while the head's turn is in the future."""

    waiting: list[tuple[int, str, int, Job]] = field(default_factory=list)
    timer: Timer | None = None


class Gates:
    """A call that may not be made yet waits here; it is claimed in a change of its own when it may.

    Nothing of this is stored but the throttles' rates: after a restart every open call asks again.
    """

    def __init__(
        self, registry: Registry, live: Live, now_ms: Callable[[], int],
        at: Callable[[int, Callable[[], None]], Timer], commit: Callable[[Change], None],
    ) -> None:  # fmt: skip
        self._registry = registry
        self._live = live
        self._now_ms = now_ms
        self._at = at
        self._commit = commit
        self._slots = Slots()
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._paused: dict[str, list[Job]] = {}
        self._order = itertools.count()

    def enter(self, change: Change, job: Job) -> bool:
        """Whether a due call may be claimed now; if not, it waits here."""
        function = self._registry.function(job.run.function)
        if function is None:
            return True
        if job.run.status == SCHEDULED:
            if self._registry.is_paused(function.slug):
                self._paused.setdefault(function.slug, []).append(job)
                return False
            if function.policies.throttle and not self._has_turn(change, function, function.policies.throttle, job):
                return False
        return self._has_slots(function, job)

    def leave(self, job: Job, slots: tuple[str, ...]) -> None:
        """A call that had these slots is over, or is not made after all: others may go."""
        if not slots:
            return
        change = Change(self._now_ms())
        for admitted in self._slots.give_back(slots):
            change.job_claimed(admitted)
        if change.statements:
            self._commit(change)

    def resume(self, change: Change, slug: str) -> None:
        """The function is paused no more: its first calls ask again."""
        for job in self._paused.pop(slug, []):
            self._enter_again(change, job)

    def _enter_again(self, change: Change, job: Job) -> None:
        if not job.dropped and self.enter(change, job):
            change.job_claimed(job)

    def _has_slots(self, function: Function, job: Job) -> bool:
        if not function.policies.concurrency:
            return True
        run = job.run
        limits = tuple(
            (limit.key(function.slug, run.event.body, run.created_ms), limit) for limit in function.policies.concurrency
        )
        return self._slots.take(Claim(job, limits))

    def _has_turn(self, change: Change, function: Function, throttle: Throttle, job: Job) -> bool:
        key = throttle.key(job.run.event.body, change.now_ms)
        if key is None:
            return True
        name = (function.slug, key)
        lane = self._lanes.setdefault(name, _Lane())
        run = job.run
        heapq.heappush(lane.waiting, (place(run.created_ms, run.priority), run.id, next(self._order), job))
        if lane.timer is not None:
            return False
        return job in self._turns(change, name, lane, throttle)

    def _turns(self, change: Change, name: tuple[str, str], lane: _Lane, throttle: Throttle) -> list[Job]:
        """The calls whose turn it is; plans the moment of the next one."""
        turns: list[Job] = []
        rate = ("throttle", *name)
        while lane.waiting:
            job = lane.waiting[0][3]
            if job.dropped:
                heapq.heappop(lane.waiting)
                continue
            turn = throttle.decide(change.now_ms, self._live.rates.get(rate, 0))
            if not turn.allowed:
                lane.timer = self._at(-(-turn.at_us // 1000), partial(self._next_turns, name))
                return turns
            heapq.heappop(lane.waiting)
            self._live.rates[rate] = turn.tat_us
            change.rate(*rate, turn.tat_us)
            turns.append(job)
        del self._lanes[name]
        return turns

    def _next_turns(self, name: tuple[str, str]) -> None:
        lane = self._lanes[name]
        lane.timer = None
        function = self._registry.function(name[0])
        change = Change(self._now_ms())
        if function is None or function.policies.throttle is None:  # registered anew without its throttle
            del self._lanes[name]
            for _, _, _, job in lane.waiting:
                self._enter_again(change, job)
        else:
            for job in self._turns(change, name, lane, function.policies.throttle):
                self._pass(change, function, job)
        if change.statements:
            self._commit(change)

    def _pass(self, change: Change, function: Function, job: Job) -> None:
        """A call that has had its turn."""
        if self._registry.is_paused(function.slug):
            self._paused.setdefault(function.slug, []).append(job)
        elif self._has_slots(function, job):
            change.job_claimed(job)
