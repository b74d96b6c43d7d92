"""Fires cron functions: each instant ends as run or skipped, once, also across restarts."""

import logging
from collections.abc import Callable
from functools import partial

from app.engine.change import Change
from app.engine.clock import iso
from app.engine.functions import CronTrigger, Function
from app.engine.ids import Ulids
from app.engine.intake import Intake
from app.engine.model import Event
from app.engine.policies.jitter import offset_ms
from app.engine.registry import Registry
from app.engine.scheduler import Scheduler

log = logging.getLogger("moab.engine")
#: A clock set back by less repeats no instant; by more, schedules go by the new time at once (as cron does).
_MAX_REPEAT_MS = 3 * 3_600_000


class Crons:
    """Keeps the next instant of every schedule in the scheduler. `commit` writes a Change in its own time."""

    def __init__(
        self, registry: Registry, intake: Intake, scheduler: Scheduler, ulids: Ulids, now_ms: Callable[[], int],
        commit: Callable[[Change], None], instants: dict[tuple[str, str], int],
    ) -> None:  # fmt: skip
        self._registry = registry
        self._intake = intake
        self._scheduler = scheduler
        self._ulids = ulids
        self._now_ms = now_ms
        self._commit = commit
        #: The last instant of each schedule that has ended as run or skipped.
        self._instants = instants
        self._armed: dict[tuple[str, str], tuple[int, CronTrigger]] = {}

    def arm(self, change: Change, functions: list[Function]) -> None:
        """After a registration: know every schedule, and make up for the latest instant missed while stopped."""
        self._forget_gone(change)
        for function in functions:
            for trigger in function.crons:
                key = (function.slug, trigger.schedule.expression)
                if key not in self._instants or self._instants[key] > change.now_ms + _MAX_REPEAT_MS:
                    self._settle(change, key, change.now_ms)
                self._catch_up(change, function, trigger)
                self._schedule(function.slug, trigger)

    def _forget_gone(self, change: Change) -> None:
        """A schedule that comes back after it was gone has missed nothing."""
        known = {
            (function.slug, trigger.schedule.expression)
            for function in self._registry.active()
            for trigger in function.crons
        }
        for key in [key for key in self._instants if key not in known]:
            del self._instants[key]
            change.add("DELETE FROM crons WHERE function = ? AND expression = ?", *key)

    def _catch_up(self, change: Change, function: Function, trigger: CronTrigger) -> None:
        cron = trigger.schedule
        key = (function.slug, cron.expression)
        # An instant whose jitter has not passed yet is not missed.
        if key in self._armed:
            return
        missed = cron.last_ms(self._instants[key], change.now_ms - trigger.jitter_ms)
        if missed is None:
            return
        log.warning(
            "Cron '%s' of %s had instants while the engine was stopped; the latest, %s, runs now.",
            cron.expression, function.slug, iso(missed),
        )  # fmt: skip
        self._run(change, function, trigger, missed)

    def _schedule(self, slug: str, trigger: CronTrigger) -> None:
        key = (slug, trigger.schedule.expression)
        instant = trigger.schedule.next_ms(self._instants[key])
        if instant is not None and self._armed.get(key) != (instant, trigger):
            self._armed[key] = (instant, trigger)
            due_ms = instant + offset_ms(slug, instant, trigger.jitter_ms)
            self._scheduler.at(due_ms, partial(self._fire, slug, trigger, instant))

    def _fire(self, slug: str, trigger: CronTrigger, instant: int) -> None:
        cron = trigger.schedule
        key = (slug, cron.expression)
        function = self._registry.startable(slug)
        if self._armed.get(key) != (instant, trigger):
            return
        if function is None or trigger not in function.crons:
            del self._armed[key]
            return
        change = Change(self._now_ms())
        late = cron.last_ms(instant, change.now_ms - trigger.jitter_ms)
        if late is not None:
            log.warning("Cron '%s' of %s skips what passed before %s.", cron.expression, slug, iso(late))
        self._run(change, function, trigger, late or instant)
        self._schedule(slug, trigger)
        self._commit(change)

    def _run(self, change: Change, function: Function, trigger: CronTrigger, instant: int) -> None:
        expression = trigger.schedule.expression
        self._settle(change, (function.slug, expression), instant)
        if self._registry.is_paused(function.slug):
            log.info("Cron '%s' of %s skips %s: the function is paused.", expression, function.slug, iso(instant))
            return
        fire_at = iso(instant + offset_ms(function.slug, instant, trigger.jitter_ms))
        body = {
            "data": {"cron": expression, "fireAt": fire_at, "scheduledAt": iso(instant)},
            "id": iso(instant),
            "name": "inngest/scheduled.timer",
            "ts": instant,
            "user": {},
        }
        self._intake.fire_cron(change, function, Event(self._ulids.new(), body, change.now_ms))

    def _settle(self, change: Change, key: tuple[str, str], instant: int) -> None:
        self._instants[key] = instant
        change.add("INSERT OR REPLACE INTO crons (function, expression, last_instant) VALUES (?,?,?)", *key, instant)
