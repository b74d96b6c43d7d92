"""Starting runs: what a policy does with a start before there is a run, and the run itself; all in one Change."""

import logging
from collections.abc import Sequence
from enum import Enum
from functools import partial

from app.engine.change import Change
from app.engine.ending import Ending
from app.engine.functions import Function
from app.engine.ids import Ulids
from app.engine.live import Live
from app.engine.model import DISCOVERY, LIFECYCLE_EVENTS, RUNNING, SCHEDULED, Event, Held, Memos, Moment, Run, to_json
from app.engine.policies.batch import Batch
from app.engine.policies.debounce import Debounce
from app.engine.policies.rate_limit import RateLimit
from app.engine.policies.singleton import Decision
from app.engine.registry import Registry
from app.engine.steps import Steps, error

log = logging.getLogger("moab.engine")


class Started(Enum):
    """What became of a start."""

    RUN = "there is a run"
    HELD = "it waits"
    DROPPED = "a policy dropped it"


class Starts:
    """Order of the policies, as in Inngest: idempotency and rate limit, batch, debounce, pause, singleton; then
    the run exists, and its first call passes throttle and concurrency (`gates.py`)."""

    def __init__(
        self, live: Live, registry: Registry, steps: Steps, ending: Ending, ulids: Ulids, *, lossy: bool
    ) -> None:
        self._live = live
        self._registry = registry
        self._steps = steps
        self._ending = ending
        self._ulids = ulids
        self._lossy = lossy

    def start(self, change: Change, function: Function, event: Event, parent: tuple[str, str] | None = None) -> Started:
        """What an event (or, with `parent`, an invocation, which neither waits for quiet nor for company) starts."""
        policies = function.policies
        for limit in (policies.idempotency, policies.rate_limit):
            if limit is not None and self._is_dropped(change, function, limit, event):
                return Started.DROPPED
        if parent is None and policies.batch is not None:
            key = policies.batch.key(event.body, change.now_ms)
            if key is not None:
                return self._collect(change, function, policies.batch, key, event)
        if parent is None and policies.debounce is not None:
            key = policies.debounce.key(event.body, change.now_ms)
            if key is not None:
                return self._put_off(change, function, policies.debounce, key, event)
        return self._launch(change, function, [event], parent)

    def restore(self, change: Change, held: Held) -> None:
        """A start that an earlier process held."""
        self._keep(held)
        if held.due_ms is not None:
            self._plan(change, held)

    def resume(self, change: Change, function: Function) -> None:
        """The function is paused no more: what was held for it starts, in order of arrival."""
        for held in self._live.paused.pop(function.slug, []):
            change.unheld(held)
            if self._launch(change, function, held.events, held.parent) is Started.DROPPED:
                self.tell_dropped(change, function.slug, held.parent)

    def drop_held(self, change: Change, slug: str) -> None:
        """The function is gone, and with it what waits to start it."""
        waiting = [held for held in self._live.held.values() if held.function == slug]
        for held in waiting + self._live.paused.pop(slug, []):
            log.warning("A start of %s is dropped (%s): the function is gone.", slug, held.why)
            self._release(change, held)
            self.tell_dropped(change, slug, held.parent)

    def tell_dropped(self, change: Change, slug: str, parent: tuple[str, str] | None) -> None:
        """The step that invoked a function which does not start fails."""
        run = self._live.runs.get(parent[0]) if parent else None
        step = run.open.get(parent[1]) if run and parent else None
        if run is not None and step is not None:
            message = f"Function {slug} did not start: one of its policies skipped it."
            self._steps.finish(change, run, step, to_json({"error": error("FunctionSkipped", message)}), failed=True)

    def watch(self, change: Change, run: Run) -> None:
        """Plan the next look at a run's time-outs."""
        function = self._registry.function(run.function)
        timeouts = function.policies.timeouts if function else None
        if timeouts is None or run.ended:
            return
        verdict = timeouts.decide(change.now_ms, run.planned_ms, run.started_ms)
        if verdict.reason is not None:
            self._ending.cancel(change, run, verdict.reason)
        elif verdict.look_at_ms is not None:
            run.deadline = Moment(verdict.look_at_ms, lambda later: self.watch(later, run))
            change.moment(run.deadline)

    def _is_dropped(self, change: Change, function: Function, limit: RateLimit, event: Event) -> bool:
        key = limit.key(event.body, change.now_ms)
        if key is None:
            return False
        rate = (limit.name, function.slug, key)
        turn = limit.decide(change.now_ms, self._live.rates.get(rate, 0))
        if not turn.allowed:
            log.info("Event %s starts no run of %s: %s.", event.internal_id, function.slug, limit.name)
            return True
        self._live.rates[rate] = turn.tat_us
        change.rate(*rate, turn.tat_us)
        return False

    def _collect(self, change: Change, function: Function, batch: Batch, key: str, event: Event) -> Started:
        held = self._live.held.get(("batch", function.slug, key))
        if held is None:
            due_ms = change.now_ms + batch.timeout_ms
            held = Held(self._live.held_id(), "batch", function.slug, key, [], due_ms)
            self._keep(held)
            self._plan(change, held)
        held.events.append(event)
        if batch.is_full(len(held.events), sum(len(item.raw) for item in held.events)):
            self._end_wait(change, held)
            return Started.RUN
        change.held(held, event)
        return Started.HELD

    def _put_off(self, change: Change, function: Function, debounce: Debounce, key: str, event: Event) -> Started:
        held = self._live.held.get(("debounce", function.slug, key))
        if held is None:
            latest_ms = debounce.latest_ms(change.now_ms)
            held = Held(self._live.held_id(), "debounce", function.slug, key, [event], None, latest_ms)
            self._keep(held)
        elif debounce.wins(event.ts, held.events[0].ts):
            held.events = [event]
            change.unheld(held)
        else:
            return Started.HELD
        held.due_ms = debounce.due_ms(change.now_ms, held.latest_ms)
        change.held(held, event)
        self._plan(change, held)
        return Started.HELD

    def _keep(self, held: Held) -> None:
        if held.why == "pause":
            self._live.paused.setdefault(held.function, []).append(held)
        else:
            self._live.held[held.why, held.function, held.key] = held

    def _plan(self, change: Change, held: Held) -> None:
        if held.moment is not None:
            held.moment.cancel()
        held.moment = Moment(held.due_ms or change.now_ms, partial(self._end_wait, held=held))
        change.moment(held.moment)

    def _release(self, change: Change, held: Held) -> None:
        self._live.held.pop((held.why, held.function, held.key), None)
        if held.moment is not None:
            held.moment.cancel()
        change.unheld(held)

    def _end_wait(self, change: Change, held: Held) -> None:
        """The batch is full, or its time is over; the key has been quiet."""
        self._release(change, held)
        function = self._registry.startable(held.function)
        if function is not None:
            self._launch(change, function, held.events, held.parent, at_once=True)

    def _launch(
        self, change: Change, function: Function, events: list[Event], parent: tuple[str, str] | None, *,
        at_once: bool = False,
    ) -> Started:  # fmt: skip
        if self._registry.is_paused(function.slug):
            held = Held(self._live.held_id(), "pause", function.slug, "", events, parent=parent)
            self._keep(held)
            for event in events:
                change.held(held, event)
            return Started.HELD
        singleton = function.policies.singleton
        key = singleton.key(events[0].body, change.now_ms) if singleton else None
        if key is not None and not self._may_start(change, function, key):
            log.info("Event %s starts no run of %s: its singleton is busy.", events[0].internal_id, function.slug)
            return Started.DROPPED
        self.begin(change, function, events, parent=parent, singleton_key=key, at_once=at_once)
        return Started.RUN

    def begin(
        self, change: Change, function: Function, events: Sequence[Event], *, parent: tuple[str, str] | None = None,
        singleton_key: str | None = None, replay_of: str | None = None, finished_steps: int = 0,
        at_once: bool = False,
    ) -> Run:  # fmt: skip
        """Make the run and plan its first call: now, or (unless `at_once`) when its event says."""
        event, priority = events[0], function.policies.priority
        run = Run(
            id=self._ulids.new(),
            function=function.slug,
            event=event,
            created_ms=change.now_ms,
            status=SCHEDULED,
            quiet=event.name in LIFECYCLE_EVENTS,
            parent=parent,
            singleton_key=singleton_key,
            batch=tuple(events) if len(events) > 1 else (),
            priority=priority.shift_s(event.body, change.now_ms) if priority else 0,
            replay_of=replay_of,
            finished_steps=finished_steps,
            memos=None if finished_steps else Memos(),
        )
        self._live.add(run)
        later_ms = run.planned_ms if run.planned_ms > change.now_ms and not at_once else None
        if self._steps.call(change, run, DISCOVERY, parallel=False, due_ms=later_ms).claimed:
            run.status, run.started_ms = RUNNING, change.now_ms
        change.run(run)
        if function.policies.timeouts:
            self.watch(change, run)
        return run

    def _may_start(self, change: Change, function: Function, key: str) -> bool:
        singleton, slot = function.policies.singleton, (function.slug, key)
        active = self._live.singleton(*slot)
        cancelled_at = self._live.cancelled_at.get(slot) if self._lossy else None
        ago = None if cancelled_at is None else change.now_ms - cancelled_at
        decision = singleton.decide(active is not None, ago) if singleton else Decision.RUN
        if decision is Decision.CANCEL_ACTIVE and active is not None:
            if self._lossy:
                self._live.cancelled_at[slot] = change.now_ms
            self._ending.cancel(change, active, "A newer start has its singleton key.")
        return decision is not Decision.SKIP
