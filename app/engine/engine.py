"""The engine's face: start, stop, attach apps, send events, look at runs. Everything else is wired here."""

import asyncio
import contextvars
import logging
import random
import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from app.engine import history, sync
from app.engine.answers import Answers
from app.engine.api import Api
from app.engine.change import Change
from app.engine.clock import Clock, to_ms
from app.engine.crons import Crons
from app.engine.ending import Ending
from app.engine.errors import EngineStopped, StoreFailed, Unauthorized
from app.engine.executor import Executor
from app.engine.ids import Ulids
from app.engine.intake import Intake
from app.engine.live import Live
from app.engine.lock import OwnerLock
from app.engine.model import Job, Memos, Run, Step
from app.engine.registry import Registry
from app.engine.scheduler import Scheduler
from app.engine.steps import Steps
from app.engine.store import Store, Stored
from app.engine.sync import Registration
from app.engine.transport import ASGIApp, AsgiTransport, HttpTransport, Transport, http_client

log = logging.getLogger("moab.engine")
CALL_PATH = "/api/inngest"
SYNC_PATH = "/api/inngest-sync"
_PRUNE_EVERY_MS = 3_600_000
_DAY_MS = 86_400_000


class Engine:
    """A small Inngest-compatible server in this process, with one SQLite file of its own.

    `event_key` is demanded from whoever sends events by HTTP; `signing_key` from whoever registers apps or reads
    runs by HTTP (without one, nobody may). `singleton_lossy` is a test switch: drop starts as the real server was
    measured to. `call_deadline_s`: a call that takes longer is given up and tried again. `jitter` gives numbers in
    [0, 1) for the back-off.
    """

    def __init__(
        self, path: Path, clock: Clock, event_key: str, signing_key: str | None = None, *,
        singleton_lossy: bool = False, call_deadline_s: float = 7200.0, retention_days: int = 14,
        max_calls: int = 500, jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._path = path
        self._clock = clock
        self._event_key = event_key
        self._signing_key = signing_key
        self._lossy = singleton_lossy
        self._deadline_ms = int(call_deadline_s * 1000)
        self._retention_ms = retention_days * _DAY_MS
        self._max_calls = max_calls
        self._jitter = jitter
        self._lock = OwnerLock(path)
        self._invitations = sync.Invitations()
        self._running = False
        self._stopping = False
        self._broken = False
        self._pending = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()
        self._http_client: httpx.AsyncClient | None = None
        self.api = Api(self, event_key, signing_key).app

    async def start(self) -> None:
        """Open the file, take up what is open in it, start the scheduler.

        Raises EngineLocked when another process has the file, StoreFailed when it cannot be opened.
        """
        self._lock.acquire()
        try:
            self._store = Store(self._path)
            stored = await self._store.open(self.now_ms())
            self._broken = False
            self._wire(stored)
            await self._resume(stored)
        except BaseException:
            await self._store.close()
            self._lock.release()
            raise
        self._running = True
        self._scheduler.start()
        self._scheduler.at(self.now_ms() + _PRUNE_EVERY_MS, self._prune_soon)
        log.info(
            "The engine runs on %s (SQLite %s) with %d open runs, of which %d were interrupted in a call.",
            self._path, sqlite3.sqlite_version, len(stored.live.runs), len(stored.interrupted),
        )  # fmt: skip

    async def stop(self, grace_s: float = 10.0) -> None:
        """No new calls; those in flight get `grace_s` seconds, then they are cancelled and made again at the next
        start. Harmless when stopped already."""
        if not self._running or self._stopping:
            return
        self._stopping = True
        await self._scheduler.stop()
        # Calls in flight may still send events; the door closes after them.
        unfinished = await self._executor.stop(grace_s, self._clock.sleep)
        self._running = self._stopping = False
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            unfinished += self._executor.leftover()
            change = Change(self.now_ms())
            for job in unfinished:
                change.job_released(job)
            await self._store.write(change.statements)
        except StoreFailed as error:
            log.error("The engine stops, but its last change could not be written: %s", error)
        if self._http_client is not None:
            await self._http_client.aclose()
            self._http_client = None
        await self._store.close()
        self._lock.release()
        log.info("The engine stopped; %d calls will be made again at the next start.", len(unfinished))

    async def attach(
        self, app: ASGIApp, *, signing_key: str, call_path: str = CALL_PATH, sync_path: str = SYNC_PATH
    ) -> str:
        """Register an ASGI app of this process and call its functions without a socket; returns the app's id.

        The app serves the same functions twice: at `call_path` with a dev-mode client (unsigned calls), at
        `sync_path` with a production-mode client whose signing key is `signing_key` (see `new_signing_key`).
        Raises SyncFailed, BadFunction, BadExpression, BadCron.
        """
        self._require_running()
        registration = await sync.in_band(app, sync_path, signing_key, self.now_ms() // 1000)
        await self._register(registration, "", AsgiTransport(app, call_path))
        return registration.app

    async def connect(self, url: str) -> None:
        """Ask an app in another process to register now; `url` is where it serves the SDK. Raises SyncFailed."""
        self._require_running()
        await self._invitations.invite(self._client, url)

    async def register(self, body: bytes, mark: str, authorization: str) -> bool:
        """An SDK's out-of-band registration; returns whether it changed anything. Raises SyncFailed and its like."""
        self._require_running()
        if not (self._invitations.accepts(mark) or sync.is_bearer(authorization, self._signing_key)):
            raise Unauthorized("A registration needs the engine's signing key, or a mark that the engine gave out.")
        registration = sync.out_of_band(body)
        return await self._register(registration, registration.url, self._http(registration.url))

    async def send(self, events: Sequence[Mapping[str, object]]) -> list[str]:
        """Accept events in wire format (`name`, `data`, optional `id`, `ts`, `user`); returns one id each.

        They are on disk when this returns. All or none: raises BadEvent, EngineStopped, StoreFailed.
        """
        self._require_running()
        change = Change(self.now_ms())
        ids = self._intake.send(change, events)
        await self._commit(change)
        return ids

    async def cancel(self, run_id: str) -> None:
        """Cancel an open run; an ended one stays as it is. Raises UnknownRun."""
        self._require_running()
        run = self._live.runs.get(run_id)
        if run is None:
            await self.run(run_id)
            return
        change = Change(self.now_ms())
        self._ending.cancel(change, run)
        self._intake.settle(change)
        await self._commit(change)

    async def runs(
        self, limit: int = 50, status: str | None = None, function: str | None = None,
        event_id: str | None = None, before: str | None = None,
    ) -> list[history.RunRow]:  # fmt: skip
        """The newest runs first. `event_id` is the id that `send` returned; `before` a run id to page from."""
        self._require_running()
        return await history.runs(
            self._store, limit=limit, status=status, function=function, event_id=event_id, before=before
        )

    async def run(self, run_id: str) -> history.RunTrace:
        """One run with its steps and attempts; raises UnknownRun."""
        self._require_running()
        return await history.run(self._store, run_id)

    async def idle(self) -> None:
        """Return when nothing is being called or written and nothing is due; sleepers and waits do not count."""
        while True:
            if self._scheduler.fire_due() or self._busy:
                self._quiet.clear()
                if self._busy:
                    await self._quiet.wait()
                continue
            await asyncio.sleep(0)
            if not self._busy:
                return

    async def prune(self) -> int:
        """Delete runs that ended longer ago than the retention, in small batches; returns how many."""
        self._require_running()
        now_ms, total = self.now_ms(), 0
        self._live.forget_event_ids(now_ms - _DAY_MS)
        while pruned := await self._store.prune(now_ms, now_ms - self._retention_ms):
            total += pruned
        return total

    def now_ms(self) -> int:
        """The engine's time."""
        return to_ms(self._clock.now())

    @property
    def healthy(self) -> bool:
        """Whether the engine runs and its file can be written."""
        return self._running and not self._broken

    @property
    def store(self) -> Store:
        return self._store

    @property
    def registry(self) -> Registry:
        return self._registry

    @property
    def _busy(self) -> bool:
        return bool(self._executor.busy or self._pending or self._tasks)

    def _wire(self, stored: Stored) -> None:
        self._live: Live = stored.live
        self._ulids = Ulids(self.now_ms, stored.greatest_id)
        self._registry = Registry()
        for app in stored.apps:
            app.transport = self._http(app.url) if app.url else None
        self._registry.load(stored.apps, stored.functions)
        self._scheduler = Scheduler(self._clock)
        self._steps = Steps(self._live)
        self._ending = Ending(self._live, self._steps, self._ulids)
        self._intake = Intake(self._live, self._registry, self._steps, self._ending, self._ulids, lossy=self._lossy)
        self._answers = Answers(
            self._live, self._registry, self._steps, self._ending, self._intake, self._ulids, self._jitter
        )
        self._crons = Crons(
            self._registry, self._intake, self._scheduler, self._ulids, self.now_ms, self._commit_soon,
            stored.cron_instants,
        )  # fmt: skip
        self._executor = Executor(
            registry=self._registry, answers=self._answers, intake=self._intake, ulids=self._ulids,
            now_ms=self.now_ms, commit=self._commit, load_memos=self._load_memos, at=self._scheduler.at,
            on_quiet=self._quiet.set, deadline_ms=self._deadline_ms, max_calls=self._max_calls,
        )  # fmt: skip

    async def _resume(self, stored: Stored) -> None:
        """Take up the calls and timers of open runs. Calls of apps not attached yet wait for them."""
        change = Change(self.now_ms())
        for run in list(stored.live.runs.values()):
            for step in run.open.values():
                change.timer(run, step)
        for job in stored.jobs:
            function = self._registry.function(job.run.function)
            if function is not None and job.attempt >= function.max_attempts:
                self._answers.give_up(change, function, job)
            else:
                change.timed.append((job.due_ms, job))
        self._crons.arm(change, [function for function in self._registry.active() if self._is_remote(function.app)])
        self._intake.settle(change)
        await self._commit(change)

    def _is_remote(self, app: str) -> bool:
        return bool(self._registry.apps[app].url)

    async def _register(self, registration: Registration, url: str, transport: Transport) -> bool:
        change = Change(self.now_ms())
        modified = self._registry.register(
            change, registration.app, url, registration.sdk, registration.functions, transport
        )
        self._crons.arm(change, self._registry.of_app(registration.app))
        await self._commit(change)
        for job in self._executor.unpark():
            self._due(job.due_ms, job)
        log.info("App %s registered %d functions.", registration.app, len(registration.functions))
        return modified

    @property
    def _client(self) -> httpx.AsyncClient:
        """Made when the first app elsewhere turns up; most engines never need it."""
        if self._http_client is None:
            self._http_client = http_client()
        return self._http_client

    def _http(self, url: str) -> HttpTransport:
        return HttpTransport(self._client, url, self._signing_key, lambda: self.now_ms() // 1000)

    def _require_running(self) -> None:
        if not self._running:
            raise EngineStopped
        if self._broken:
            raise StoreFailed

    async def _load_memos(self, run: Run) -> Memos:
        return await self._store.memos(run.id)

    async def _commit(self, change: Change) -> None:
        """Write a change, then begin what it made possible. Memory is ahead of the disk only inside here."""
        self._pending += 1
        try:
            await self._store.write(change.statements)
        except StoreFailed as error:
            # Memory and file disagree from here on: nothing more may be started from memory.
            self._broken = True
            self._executor.halt()
            log.critical("%s No more work is taken; restart the service when the disk is well.", error)
            raise
        finally:
            self._pending -= 1
            if not self._busy:
                self._quiet.set()
        if self._broken:
            return
        for job in change.ready:
            self._executor.release(job)
        for due_ms, thing in change.timed:
            self._arm(due_ms, thing)

    def _arm(self, due_ms: int, thing: "Job | tuple[Run, Step]") -> None:
        """Plan a call, or the moment of a step, unless it was overtaken while it was written."""
        if isinstance(thing, Job):
            if not thing.dropped:
                thing.timer = self._scheduler.at(due_ms, partial(self._due, due_ms, thing))
            return
        run, step = thing
        if not run.ended and run.open.get(step.id) is step:
            step.timer = self._scheduler.at(due_ms, partial(self._due, due_ms, thing))

    def _commit_soon(self, change: Change) -> None:
        self._spawn(self._commit(change))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)

    def _spawned_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A change could not be completed: %s", error)
        if not self._busy:
            self._quiet.set()

    def _due(self, due_ms: int, thing: "Job | tuple[Run, Step]") -> None:
        """The moment of a planned call, or of a step that sleeps or waits."""
        change = Change(self.now_ms())
        if isinstance(thing, Job):
            if thing.dropped or thing.due_ms != due_ms:
                return
            if self._registry.transport(thing.run.function) is None:
                self._executor.park(thing)
                return
            change.job_claimed(thing)
        else:
            run, step = thing
            if run.ended or run.open.get(step.id) is not step:
                return
            self._steps.time_out(change, run, step)
        self._commit_soon(change)

    def _prune_soon(self) -> None:
        self._scheduler.at(self.now_ms() + _PRUNE_EVERY_MS, self._prune_soon)
        self._spawn(self.prune())
