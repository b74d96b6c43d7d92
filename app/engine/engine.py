"""The engine's face: start, stop, attach apps, send events, look at runs and steer them."""

import logging
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from app.engine import history, operations, sync
from app.engine.access import Access
from app.engine.api import Api
from app.engine.change import Change
from app.engine.clock import Clock, to_ms
from app.engine.core import Core, Options
from app.engine.errors import EngineStopped, StoreFailed, Unauthorized
from app.engine.events import MAX_EVENT_BYTES
from app.engine.feed import Feed, RunChange
from app.engine.gateway import Gateway
from app.engine.lock import OwnerLock
from app.engine.registry import Registry
from app.engine.store import SEND_MEMORY_MS, Store
from app.engine.transport import ASGIApp, AsgiTransport, HttpTransport, http_client

log = logging.getLogger("moab.engine")
CALL_PATH = "/api/inngest"
SYNC_PATH = "/api/inngest-sync"
_PRUNE_EVERY_MS = 3_600_000
_DAY_MS = 86_400_000


class Engine:
    """A small Inngest-compatible server in this process, with one SQLite file of its own.

    `event_key` is demanded from whoever sends events by HTTP; `signing_key` from whoever registers apps or reads
    runs by HTTP (without one, nobody may). `dev`: a development server; callers of this machine need no keys at all,
    others need the signing key. `singleton_lossy` is a test switch: drop starts as the real server was measured to.
    `call_deadline_s`: a call that takes longer is given up and tried again. `jitter` gives numbers in [0, 1) for the
    back-off.
    """

    def __init__(
        self, path: Path, clock: Clock, event_key: str, signing_key: str | None = None, *, dev: bool = False,
        singleton_lossy: bool = False, call_deadline_s: float = 7200.0, retention_days: int = 14,
        max_calls: int = 500, max_event_bytes: int = MAX_EVENT_BYTES, jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._path = path
        self._clock = clock
        self._signing_key = signing_key
        self._options = Options(
            singleton_lossy=singleton_lossy, call_deadline_ms=int(call_deadline_s * 1000), max_calls=max_calls,
            max_event_bytes=max_event_bytes, jitter=jitter,
        )  # fmt: skip
        self._retention_ms = retention_days * _DAY_MS
        self._lock = OwnerLock(path)
        self._invitations = sync.Invitations()
        self._running = False
        self._stopping = False
        self._http_client: httpx.AsyncClient | None = None
        self._feed = Feed()
        self.api = Api(self, Access(event_key, signing_key, dev)).app

    async def start(self) -> None:
        """Open the file, take up what is open in it, start the scheduler.

        Raises EngineLocked when another process has the file, StoreFailed when it cannot be opened.
        """
        self._lock.acquire()
        store = Store(self._path)
        try:
            stored = await store.open(self.now_ms())
            self._core = Core(store, stored, self._clock, self._options, self._feed, Gateway(self._client), self._http)
            await self._core.resume(stored)
        except BaseException:
            await store.close()
            self._lock.release()
            raise
        self._running = True
        self._core.scheduler.start()
        self._core.scheduler.at(self.now_ms() + _PRUNE_EVERY_MS, self._prune_soon)
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
        self._feed.close()
        self._core.executor.halt()
        await self._core.scheduler.stop()
        # Calls in flight may still send events; the door closes after them.
        unfinished = await self._core.executor.stop(grace_s, self._clock.sleep)
        self._running = self._stopping = False
        count = 0
        try:
            count = await self._core.close(unfinished)
        except StoreFailed as error:
            log.error("The engine stops, but its last change could not be written: %s", error)
        if self._http_client is not None:
            await self._http_client.aclose()
            self._http_client = None
        await self._core.store.close()
        self._lock.release()
        log.info("The engine stopped; %d calls will be made again at the next start.", count)

    async def attach(
        self, app: ASGIApp, *, signing_key: str, call_path: str = CALL_PATH, sync_path: str = SYNC_PATH
    ) -> str:
        """Register an ASGI app of this process and call its functions without a socket; returns the app's id.

        The app serves the same functions twice: at `call_path` with a dev-mode client (unsigned calls), at
        `sync_path` with a production-mode client whose signing key is `signing_key` (see `new_signing_key`).
        Raises SyncFailed, BadFunction, BadExpression, BadCron.
        """
        self._require_running()
        found = await sync.in_band(app, sync_path, signing_key, self.now_ms() // 1000)
        await self._core.register(found.app, "", found.sdk, found.functions, AsgiTransport(app, call_path))
        return found.app

    async def connect(self, url: str) -> None:
        """Ask an app in another process to register now; `url` is where it serves the SDK. Raises SyncFailed."""
        self._require_running()
        await self._invitations.invite(self._client(), url)

    async def register(self, body: bytes, mark: str, authorization: str, *, trusted: bool = False) -> bool:
        """An SDK's out-of-band registration; returns whether it changed anything. Raises SyncFailed and its like.

        `trusted`: whoever asks needs no key.
        """
        self._require_running()
        allowed = trusted or self._invitations.accepts(mark) or sync.is_bearer(authorization, self._signing_key)
        if not allowed:
            raise Unauthorized("A registration needs the engine's signing key, or a mark that the engine gave out.")
        found = sync.out_of_band(body)
        return await self._core.register(found.app, found.url, found.sdk, found.functions, self._http(found.url))

    async def send(self, events: Sequence[Mapping[str, object]], seed: str | None = None) -> list[str]:
        """Accept events in wire format (`name`, `data`, optional `id`, `ts`, `user`); returns one id each.

        They are on disk when this returns. All or none: raises BadEvent, EngineStopped, StoreFailed. A request with
        the `seed` of one of the last ten minutes is its repetition: it starts nothing and gets the same ids.
        """
        self._require_running()
        change = Change(self.now_ms())
        ids = self._core.intake.send(change, events, seed)
        await self._core.commit(change)
        return ids

    async def cancel(self, run_id: str) -> None:
        """Cancel an open run; an ended one stays as it is. Raises UnknownRun."""
        self._require_running()
        if not await operations.cancel(self._core, run_id):
            await self.run(run_id)

    async def cancel_many(self, body: Any) -> dict[str, Any]:
        """Inngest's bulk cancellation: `app_id`, `function_id`, `started_after`, `started_before`, `if`; returns its
        record. Raises BadRequest, BadExpression, UnknownFunction."""
        self._require_running()
        return await operations.cancel_many(self._core, body)

    async def replay(self, run_id: str, from_step: str | None = None) -> str:
        """Run again with the original events; returns the new run's id, whose row says `replay_of`.

        With `from_step` (a step's id or name) the memos of the steps before it are kept, in their order. Raises
        UnknownRun, UnknownStep, UnknownFunction.
        """
        self._require_running()
        return await operations.replay(self._core, run_id, from_step)

    async def pause(self, function: str) -> None:
        """Start nothing of a function (given by its full id) until `resume`: events queue up, cron instants are
        skipped, runs that have begun go on. Survives restarts. Raises UnknownFunction."""
        self._require_running()
        await operations.set_paused(self._core, function, paused=True)

    async def resume(self, function: str) -> None:
        """Start what has queued up, in order of arrival. Raises UnknownFunction."""
        self._require_running()
        await operations.set_paused(self._core, function, paused=False)

    async def runs(
        self, limit: int = 50, status: str | None = None, function: str | None = None,
        event_id: str | None = None, before: str | None = None, *, since: datetime | None = None,
        until: datetime | None = None, text: str | None = None, without: Sequence[str] = (),
    ) -> list[history.RunRow]:  # fmt: skip
        """The newest runs first. `event_id` is the id that `send` returned; `before` a run id to page from; `since`
        and `until` bound their creation; `text` is looked for in their events. Runs that went well are left
        out where an event named in `without` started them. Raises BadRequest for a status and UnknownFunction for a
        function that does not exist."""
        self._require_running()
        if function is not None:
            self._core.registry.require(function)
        return await history.runs(
            self.store, limit=limit, status=status, function=function, event_id=event_id, before=before,
            since_ms=to_ms(since) if since else None, until_ms=to_ms(until) if until else None, text=text,
            without=without,
        )  # fmt: skip

    async def run_ids(self, beginning: str, limit: int = 2) -> list[str]:
        """Ids of runs that begin so, oldest first: two are enough to see that `beginning` names no single one."""
        self._require_running()
        return await history.run_ids(self.store, beginning, limit)

    async def run(self, run_id: str) -> history.RunTrace:
        """One run with its steps and attempts; raises UnknownRun."""
        self._require_running()
        return await history.run(self.store, run_id)

    async def events(
        self, limit: int = 50, name: str | None = None, before: str | None = None
    ) -> list[history.EventRow]:
        """The newest events first, the engine's own among them; `before` is an event's id to page from."""
        self._require_running()
        return await history.events(self.store, limit=limit, name=name, before=before)

    async def event(self, event_id: str) -> history.EventTrace:
        """One event (by the id that `send` returned) and the runs that it started; raises UnknownEvent."""
        self._require_running()
        return await history.event(self.store, event_id)

    async def functions(self) -> list[history.FunctionRow]:
        """The functions that can start, by id."""
        self._require_running()
        active = sorted(self.registry.active(), key=lambda function: function.slug)
        return [history.function_row(function, self.registry.is_paused(function.slug)) for function in active]

    def changes(self) -> AsyncIterator[RunChange]:
        """The runs that change from the first look on, until the engine stops. Who does not keep up misses some."""
        return self._feed.changes()

    async def idle(self) -> None:
        """Return when nothing is being called or written and nothing is due; sleepers and waits do not count."""
        await self._core.idle()

    async def prune(self) -> int:
        """Delete runs that ended longer ago than the retention, in small batches; returns how many."""
        self._require_running()
        now_ms, total = self.now_ms(), 0
        self._core.live.forget_event_ids(now_ms - _DAY_MS)
        self._core.live.forget_sends(now_ms - SEND_MEMORY_MS)
        while pruned := await self.store.prune(now_ms, now_ms - self._retention_ms):
            total += pruned
        if total:
            await self.store.shrink()
        return total

    async def forget(self, paths: Sequence[str], values: Sequence[str]) -> tuple[int, int]:
        """Delete events that have one of `values` at one of the JSON `paths`, and their runs; open ones are cancelled.

        Returns how many runs went, and how many stay (of a function that is paused). Nothing of it is left in the file.
        """
        self._require_running()
        events = await self.store.events_about(paths, values)
        for run_id in await self.store.open_runs_of(events):
            await operations.cancel(self._core, run_id)
        found = await self.store.forget(await self.store.events_about(paths, values))
        await self.store.scrub()
        return found

    def now_ms(self) -> int:
        """The engine's time."""
        return to_ms(self._clock.now())

    @property
    def healthy(self) -> bool:
        """Whether the engine runs and its file can be written."""
        return self._running and not self._core.broken

    @property
    def store(self) -> Store:
        return self._core.store

    @property
    def registry(self) -> Registry:
        return self._core.registry

    def _client(self) -> httpx.AsyncClient:
        """Made when it is first needed; most engines never do."""
        if self._http_client is None:
            self._http_client = http_client()
        return self._http_client

    def _http(self, url: str) -> HttpTransport:
        return HttpTransport(self._client(), url, self._signing_key, lambda: self.now_ms() // 1000)

    def _require_running(self) -> None:
        if not self._running:
            raise EngineStopped
        if self._core.broken:
            raise StoreFailed

    def _prune_soon(self) -> None:
        self._core.scheduler.at(self.now_ms() + _PRUNE_EVERY_MS, self._prune_soon)
        self._core.spawn(self.prune())
