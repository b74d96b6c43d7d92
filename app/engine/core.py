"""What lives from one start of the engine to the next stop: the parts wired together, changes, due moments."""

import asyncio
import contextvars
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.engine.answers import Answers
from app.engine.change import Change
from app.engine.clock import Clock, to_ms
from app.engine.crons import Crons
from app.engine.ending import Ending
from app.engine.events import MAX_EVENT_BYTES
from app.engine.executor import Executor
from app.engine.feed import Feed
from app.engine.functions import Function
from app.engine.gates import Gates
from app.engine.gateway import Gateway
from app.engine.ids import Ulids
from app.engine.intake import Intake
from app.engine.jumps import shift_back
from app.engine.live import Live
from app.engine.loading import Stored
from app.engine.model import Job, Memos, Moment, Run, Step
from app.engine.registry import Registry
from app.engine.scheduler import Scheduler
from app.engine.starts import Starts
from app.engine.steps import Steps
from app.engine.store import Store
from app.engine.transport import Transport

log = logging.getLogger("moab.engine")


@dataclass(frozen=True, slots=True)
class Options:
    """How an engine behaves; see `Engine`."""

    singleton_lossy: bool = False
    call_deadline_ms: int = 7_200_000
    max_calls: int = 500
    max_event_bytes: int = MAX_EVENT_BYTES
    jitter: Callable[[], float] = random.random


class Core:
    """The engine's parts. `transport` makes the way to an app elsewhere from its URL."""

    def __init__(
        self, store: Store, stored: Stored, clock: Clock, options: Options, feed: Feed, gateway: Gateway,
        transport: Callable[[str], Transport],
    ) -> None:  # fmt: skip
        self.store = store
        self.broken = False
        self._clock = clock
        self._feed = feed
        self._writes: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()
        self.live: Live = stored.live
        self.ulids = Ulids(self.now_ms, stored.greatest_id)
        self.registry = Registry()
        for app in stored.apps:
            app.transport = transport(app.url) if app.url else None
        self.registry.load(stored.apps, stored.functions, stored.paused)
        self.scheduler = Scheduler(clock, self._jumped_back)
        self.gates = Gates(self.registry, self.live, self.now_ms, self.scheduler.at, self.commit_soon)
        self.steps = Steps(self.live, self.gates)
        self.ending = Ending(self.live, self.steps, self.ulids)
        self.starts = Starts(
            self.live, self.registry, self.steps, self.ending, self.ulids, lossy=options.singleton_lossy
        )
        self.intake = Intake(
            self.live, self.registry, self.steps, self.ending, self.starts, self.ulids, options.max_event_bytes
        )
        self._answers = Answers(
            self.live, self.registry, self.steps, self.ending, self.starts, self.ulids, options.jitter
        )
        self._crons = Crons(
            self.registry, self.intake, self.scheduler, self.ulids, self.now_ms, self.commit_soon,
            stored.cron_instants,
        )  # fmt: skip
        self.executor = Executor(
            registry=self.registry, answers=self._answers, intake=self.intake, gates=self.gates, gateway=gateway,
            ulids=self.ulids, now_ms=self.now_ms, commit=self.commit, load_memos=self._load_memos,
            at=self.scheduler.at, on_quiet=self._quiet.set, deadline_ms=options.call_deadline_ms,
            max_calls=options.max_calls,
        )  # fmt: skip

    def now_ms(self) -> int:
        return to_ms(self._clock.now())

    @property
    def busy(self) -> bool:
        """Whether anything is being called or written."""
        return bool(self.executor.busy or self._writes or self._tasks)

    async def resume(self, stored: Stored) -> None:
        """Take up the calls, timers and waiting starts of an earlier process. Calls of apps not attached yet wait."""
        change = Change(self.now_ms())
        for held in stored.held:
            self.starts.restore(change, held)
        for run in list(self.live.runs.values()):
            self.starts.watch(change, run)
            for step in run.open.values():
                change.timer(run, step)
        for job in stored.jobs:
            function = self.registry.function(job.run.function)
            if job.dropped:
                continue
            if function is not None and job.attempt >= function.max_attempts:
                self._answers.give_up(change, function, job)
            else:
                change.timed.append((job.due_ms, job))
        self._crons.arm(change, [function for function in self.registry.active() if self._is_remote(function.app)])
        self.intake.settle(change)
        await self.commit(change)

    async def register(
        self, app: str, url: str, sdk: str, configs: Sequence[Any], transport: Transport
    ) -> bool:  # fmt: skip
        """An app's functions, from now on; the open runs of functions that are gone end as cancelled."""
        change, known = Change(self.now_ms()), self.registry.apps.get(app)
        is_new = known is None or known.transport is None
        modified, gone = self.registry.register(change, app, url, sdk, configs, transport)
        for function in gone:
            self._remove(change, function)
        self._crons.arm(change, self.registry.of_app(app))
        self.intake.settle(change)
        await self.commit(change)
        for job in self.executor.unpark():
            self._due(job.due_ms, job)
        if modified or is_new:
            log.info("App %s registered %d functions.", app, len(configs))
        return modified

    def commit(self, change: Change) -> "asyncio.Future[None]":
        """Write a change, then begin what it made possible. Memory is ahead of the disk only until then.

        The change is queued at once, in the order in which memory changed; what is returned is done when it is on disk,
        and may be given up without harm. Meanwhile the calls that it made ready are prepared: each has its way to its
        app, and gets its body after.
        """
        return asyncio.shield(self._write(change))

    def commit_soon(self, change: Change) -> None:
        """The same, for those who do not wait."""
        self._write(change)

    def _write(self, change: Change) -> "asyncio.Future[None]":
        ahead = partial(self._release, change) if change.ready else None
        written = self.store.write(change.statements, ahead)
        for job in change.ready:
            job.written = written
        self._writes.add(written)
        written.add_done_callback(partial(self._committed, change))
        return written

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let something happen that the engine waits for when it stops."""
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)

    async def idle(self) -> None:
        """Return when nothing is being called or written and nothing is due; sleepers and waits do not count."""
        while True:
            if self.scheduler.fire_due() or self.busy:
                self._quiet.clear()
                if self.busy:
                    await self._quiet.wait()
                continue
            await asyncio.sleep(0)
            if not self.busy:
                return

    async def close(self, unfinished: list[Job]) -> int:
        """After the last call: finish what is being written, give back the calls that were cut off or never begun."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._writes:  # what they make ready is given back as well
            await asyncio.wait(self._writes)
        unfinished = unfinished + self.executor.leftover()
        change = Change(self.now_ms())
        for job in unfinished:
            change.job_released(job)
        await self.store.write(change.statements)
        return len(unfinished)

    def _jumped_back(self, lost_ms: int) -> None:
        change = Change(self.now_ms())
        shift_back(change, self.live, lost_ms)
        self._crons.arm(change, self.registry.active())
        if change.statements or change.timed:
            self.commit_soon(change)

    def _remove(self, change: Change, function: Function) -> None:
        self.starts.drop_held(change, function.slug)
        for run in self.live.of_function(function.slug):
            self.ending.cancel(change, run, f"App {function.app} does not have the function any more.")

    def _is_remote(self, app: str) -> bool:
        return bool(self.registry.apps[app].url)

    async def _load_memos(self, run: Run) -> Memos:
        return await self.store.memos(run.id)

    def _committed(self, change: Change, written: "asyncio.Future[None]") -> None:
        self._writes.discard(written)
        error = written.exception()
        if error is not None:
            # Memory and file disagree from here on: nothing more may be started from memory.
            self.broken = True
            self.executor.break_off()
            log.critical("%s No more work is taken; restart the service when the disk is well.", error)
        if not self.broken:
            if change.touched:
                self._feed.publish(change.touched.values())
            self._release(change)
            for due_ms, thing in change.timed:
                self._arm(due_ms, thing)
        if not self.busy:
            self._quiet.set()

    def _release(self, change: Change) -> None:
        ready, change.ready = change.ready, []
        for job in ready:
            self.executor.release(job)

    def _arm(self, due_ms: int, thing: "Job | Moment | tuple[Run, Step]") -> None:
        """Plan a call, or the moment of something, unless it was overtaken while it was written."""
        if isinstance(thing, Job):
            if not thing.dropped:
                thing.timer = self.scheduler.at(due_ms, partial(self._due, due_ms, thing))
        elif isinstance(thing, Moment):
            if not thing.void:
                thing.timer = self.scheduler.at(due_ms, partial(self._due, due_ms, thing))
        else:
            run, step = thing
            if not run.ended and run.open.get(step.id) is step:
                step.timer = self.scheduler.at(due_ms, partial(self._due, due_ms, thing))

    def _spawned_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A change could not be completed: %s", error)
        if not self.busy:
            self._quiet.set()

    def _due(self, due_ms: int, thing: "Job | Moment | tuple[Run, Step]") -> None:
        """The moment of a planned call, of a step that sleeps or waits, or of something else."""
        change = Change(self.now_ms())
        if isinstance(thing, Job):
            self._call_due(change, due_ms, thing)
        elif isinstance(thing, Moment):
            if not thing.void:
                thing.act(change)
                self.intake.settle(change)
        else:
            run, step = thing
            if not run.ended and run.open.get(step.id) is step:
                self.steps.time_out(change, run, step)
        if change.statements or change.timed:
            self.commit_soon(change)

    def _call_due(self, change: Change, due_ms: int, job: Job) -> None:
        if job.dropped or job.claimed or job.due_ms != due_ms:
            return
        if self.registry.transport(job.run.function) is None:
            self.executor.park(job)
        elif self.gates.enter(change, job):
            change.job_claimed(job)
