"""Makes the calls: one task per call, a bound on how many at once, a deadline for each."""

import asyncio
import contextvars
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from app.engine.answers import Answers
from app.engine.change import Change
from app.engine.errors import StoreFailed, TransportFailed, Unreachable
from app.engine.functions import Function
from app.engine.gates import Gates
from app.engine.gateway import INFERENCE, Gateway
from app.engine.ids import Ulids
from app.engine.intake import Intake
from app.engine.model import Job, Memos, Run
from app.engine.policies.priority import place
from app.engine.registry import Registry
from app.engine.transport import Body, Transport
from app.engine.wire import Failure, Outcome, body_of, headers_of, read_answer

log = logging.getLogger("moab.engine")
#: How long a call in flight may take to notice that it is cancelled (real time: it is code that misbehaves).
_CANCEL_WAIT_S = 5.0
_MEMO_READS = 100


class _Withdrawn(Exception):
    """The call is not made after all."""


class Executor:
    """Owns every call in flight. `commit` writes a Change and releases what it made ready."""

    def __init__(
        self, *, registry: Registry, answers: Answers, intake: Intake, gates: Gates, gateway: Gateway, ulids: Ulids,
        now_ms: Callable[[], int], commit: Callable[[Change], Awaitable[None]],
        load_memos: Callable[[Run], Awaitable[Memos]], at: Callable[[int, Callable[[], None]], object],
        on_quiet: Callable[[], None], deadline_ms: int, max_calls: int,
    ) -> None:  # fmt: skip
        self._registry = registry
        self._answers = answers
        self._intake = intake
        self._gates = gates
        self._gateway = gateway
        self._ulids = ulids
        self._now_ms = now_ms
        self._commit = commit
        self._load_memos = load_memos
        self._at = at
        self._on_quiet = on_quiet
        self._deadline_ms = deadline_ms
        self._max_calls = max_calls
        self._ready: list[tuple[int, str, int, Job]] = []
        self._order = itertools.count()
        self._parked: list[Job] = []
        self._calls: dict[asyncio.Task[None], tuple[Job, tuple[str, ...]]] = {}
        self._deadlines: deque[tuple[int, asyncio.Task[None]]] = deque()
        self._late: set[asyncio.Task[None]] = set()
        self._watching = False
        self._stopping = False
        self._broken = False

    @property
    def busy(self) -> bool:
        """Whether a call is being made or waits for its turn."""
        return bool(self._calls or self._ready)

    def release(self, job: Job) -> None:
        """Make a claimed call as soon as there is room; of those that wait, older and preferred runs go first."""
        run = job.run
        heapq.heappush(self._ready, (place(run.created_ms, run.priority), run.id, next(self._order), job))
        self._pump()

    def park(self, job: Job) -> None:
        """Keep a call until its app is attached."""
        log.info("A call of run %s waits until the app of %s is attached.", job.run.id, job.run.function)
        job.claimed = False
        self._parked.append(job)

    def unpark(self) -> list[Job]:
        """An app was attached: hand out the calls that waited for one."""
        parked, self._parked = self._parked, []
        return [job for job in parked if not job.dropped]

    def halt(self) -> None:
        """Begin no call from now on."""
        self._stopping = True

    def break_off(self) -> None:
        """A claim could not be written: tell no app anything from now on, not even one that is entered already."""
        self._broken = True
        self.halt()

    async def stop(self, grace_s: float, sleep: Callable[[float], Awaitable[None]]) -> list[Job]:
        """No new calls; wait up to `grace_s` for those in flight, then cancel. Returns the calls cut off."""
        self.halt()
        if self._calls and grace_s > 0:
            grace = asyncio.ensure_future(sleep(grace_s))
            calls = asyncio.gather(*self._calls, return_exceptions=True)
            await asyncio.wait((grace, calls), return_when=asyncio.FIRST_COMPLETED)
            grace.cancel()
            await asyncio.gather(grace, return_exceptions=True)
        unfinished = [job for job, _ in self._calls.values() if not job.dropped]
        for task, (job, _) in self._calls.items():
            if not job.dropped:  # one whose answer is being written needs no more than a moment
                task.cancel()
        if self._calls:
            _, stuck = await asyncio.wait(self._calls, timeout=_CANCEL_WAIT_S)
            if stuck:
                log.error("%d calls cannot be cancelled; the engine stops without them.", len(stuck))
        return unfinished

    def leftover(self) -> list[Job]:
        """The calls that were never begun."""
        waiting = [job for job in (*(entry[3] for entry in self._ready), *self._parked) if not job.dropped]
        self._ready.clear()
        self._parked.clear()
        return waiting

    def _pump(self) -> None:
        while self._ready and len(self._calls) < self._max_calls and not self._stopping:
            job = heapq.heappop(self._ready)[3]
            slots, job.slots = job.slots, ()
            if job.dropped:
                self._gates.leave(job, slots)
                continue
            transport = self._registry.transport(job.run.function)
            function = self._registry.function(job.run.function)
            if transport is None or function is None:
                self._gates.leave(job, slots)
                self.park(job)
                continue
            job.run.in_flight += 1
            # A call must not inherit the context of whoever sent its event: the SDK keeps a running step there.
            task = asyncio.create_task(self._call(job, function, transport), context=contextvars.Context())
            self._calls[task] = (job, slots)
            self._watch(task)
            task.add_done_callback(self._finished)

    def _watch(self, task: asyncio.Task[None]) -> None:
        """All deadlines have one length, so a queue keeps them in order; one timer watches its head."""
        self._deadlines.append((self._now_ms() + self._deadline_ms, task))
        if not self._watching:
            self._watching = True
            self._at(self._deadlines[0][0], self._give_up_late)

    def _give_up_late(self) -> None:
        now_ms = self._now_ms()
        while self._deadlines and (self._deadlines[0][1].done() or self._deadlines[0][0] <= now_ms):
            task = self._deadlines.popleft()[1]
            if not task.done():
                self._late.add(task)
                task.cancel()
        self._watching = bool(self._deadlines)
        if self._watching:
            self._at(self._deadlines[0][0], self._give_up_late)

    def _finished(self, task: asyncio.Task[None]) -> None:
        job, slots = self._calls.pop(task)
        job.run.in_flight -= 1
        _forget_memos(job.run)
        self._late.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A call of run %s broke off; it is made again at the next start.", job.run.id,
                      exc_info=task.exception())  # fmt: skip
        self._gates.leave(job, slots)
        self._pump()
        if not self.busy:
            self._on_quiet()

    async def _call(self, job: Job, function: Function, transport: Transport) -> None:
        job.called_ms = self._now_ms()
        outcome = await self._ask(job, function, transport)
        await self._written(job)  # or what was not claimed would have an answer
        if job.dropped:
            log.info("Run %s ended meanwhile; the answer of a call in flight is dropped.", job.run.id)
            return
        await self._commit(self._applied(function, job, outcome))

    def _applied(self, function: Function, job: Job, outcome: Outcome) -> Change:
        """What an answer changes. One that cannot be applied ends its run, which would wait for ever else."""
        change = Change(self._now_ms())
        try:
            self._answers.apply(change, function, job, outcome, job.called_ms)
        except Exception as fault:
            log.exception("The answer of a call of run %s could not be applied; please report this.", job.run.id)
            problem = f"The answer could not be applied ({type(fault).__name__}: {fault})."
            change = Change(self._now_ms())
            failure = Failure.of_engine("BadAnswer", problem, no_retry=True)
            self._answers.apply(change, function, job, failure, job.called_ms)
        self._intake.settle(change)
        return change

    async def _ask(self, job: Job, function: Function, transport: Transport) -> Outcome:
        run = job.run
        try:
            step = run.open.get(job.step_id)
            if step is not None and step.op == INFERENCE:
                await self._claimed(job)
                return await self._gateway.infer(run, step)
            request_id = self._ulids.new()
            body = partial(self._body, function, job, request_id, transport.limits_body)
            query = {"fnId": run.function, "stepId": job.step_id}
            return read_answer(await transport.post(query, headers_of(run, job, request_id), body))
        except _Withdrawn:
            return Failure.of_engine("Withdrawn", "The run ended before the call was made.")
        except TransportFailed as problem:
            log.warning("A call of run %s of %s failed: %s", run.id, run.function, problem)
            is_attempt = not isinstance(problem, Unreachable)
            return Failure.of_engine("TransportFailed", str(problem), is_attempt=is_attempt)
        except asyncio.CancelledError:
            return self._cancelled(run, asyncio.current_task())

    async def _body(self, function: Function, job: Job, request_id: str, limited: bool) -> Body:
        """What the app is told, once the claim is on disk."""
        memos = await self._memos(job.run)
        known = len(memos)
        body = body_of(function, job.run, job, memos, request_id, limited)
        await self._claimed(job)
        # A step beside it may have ended meanwhile.
        return body if len(memos) == known else body_of(function, job.run, job, memos, request_id, limited)

    async def _claimed(self, job: Job) -> None:
        """Nothing may happen before the claim is on disk, nor when the run ended while it was written."""
        await self._written(job)
        if self._broken:
            raise StoreFailed("A change of somebody else could not be written.")
        if job.dropped:
            raise _Withdrawn
        job.called_ms = self._now_ms()

    async def _written(self, job: Job) -> None:
        """Raises StoreFailed if the claim could not be written."""
        if job.written is not None:
            await asyncio.shield(job.written)  # others wait for it as well

    async def _memos(self, run: Run) -> Memos:
        for _ in range(_MEMO_READS):
            if run.memos is not None and len(run.memos) == run.finished_steps:
                return run.memos
            # A step may finish while its memos are on their way from the file: read again.
            run.memos = await self._load_memos(run)
        raise TransportFailed("The run's memos could not be read.")

    def _cancelled(self, run: Run, task: "asyncio.Task[None] | None") -> Failure:
        """A call over its deadline, or cancelled by the app's own code, failed; any other cancellation is ours."""
        if task is None or (task.cancelling() and (self._stopping or task not in self._late)):
            raise asyncio.CancelledError
        if task.cancelling():
            task.uncancel()
            name, message = "CallDeadline", f"The call did not end within {self._deadline_ms / 1000:g} s."
        else:
            name, message = "CallCancelled", "The app cancelled its own call."
        log.warning("Run %s of %s: %s", run.id, run.function, message)
        return Failure.of_engine(name, message)


def _forget_memos(run: Run) -> None:
    """A run that only waits needs its memos in memory no more; they are read again before its next call."""
    if run.finished_steps and not run.in_flight and not any(job.claimed for job in run.jobs.values()):
        run.memos = None
