"""Fires cron functions: each instant ends as run or skipped, once, also across restarts."""

import logging
from collections.abc import Callable
from functools import partial

from app.engine.change import Change
from app.engine.clock import iso
from app.engine.cron import Cron
from app.engine.functions import Function
from app.engine.ids import Ulids
from app.engine.intake import Intake
from app.engine.model import Event
from app.engine.registry import Registry
from app.engine.scheduler import Scheduler

log = logging.getLogger("moab.engine")


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
        self._armed: dict[tuple[str, str], int] = {}

    def arm(self, change: Change, functions: list[Function]) -> None:
        """After a registration: know every schedule, and make up for the latest instant missed while stopped."""
        self._forget_gone(change)
        for function in functions:
            for cron in function.crons:
                key = (function.slug, cron.expression)
                if key not in self._instants:
                    self._settle(change, key, change.now_ms)
                self._catch_up(change, function, cron)
                self._schedule(function.slug, cron)

    def _forget_gone(self, change: Change) -> None:
        """A schedule that comes back after it was gone has missed nothing."""
        known = {(function.slug, cron.expression) for function in self._registry.active() for cron in function.crons}
        for key in [key for key in self._instants if key not in known]:
            del self._instants[key]
            change.add("DELETE FROM crons WHERE function = ? AND expression = ?", *key)

    def _catch_up(self, change: Change, function: Function, cron: Cron) -> None:
        key = (function.slug, cron.expression)
        missed, count = cron.last_ms(self._instants[key], change.now_ms)
        if missed is None or key in self._armed:
            return
        log.warning(
            "Cron '%s' of %s missed %d instants while the engine was stopped; the latest, %s, runs now.",
            cron.expression, function.slug, count, iso(missed),
        )  # fmt: skip
        self._run(change, function, cron, missed)

    def _schedule(self, slug: str, cron: Cron) -> None:
        key = (slug, cron.expression)
        instant = cron.next_ms(self._instants[key])
        if instant is not None and self._armed.get(key) != instant:
            self._armed[key] = instant
            self._scheduler.at(instant, partial(self._fire, slug, cron, instant))

    def _fire(self, slug: str, cron: Cron, instant: int) -> None:
        key = (slug, cron.expression)
        function = self._registry.startable(slug)
        if self._armed.get(key) != instant or function is None or cron.expression not in _expressions(function):
            self._armed.pop(key, None)
            return
        change = Change(self._now_ms())
        late, skipped = cron.last_ms(instant, change.now_ms)
        if late is not None:
            log.warning("Cron '%s' of %s skips %d instants that passed meanwhile.", cron.expression, slug, skipped)
        self._run(change, function, cron, late or instant)
        self._schedule(slug, cron)
        self._commit(change)

    def _run(self, change: Change, function: Function, cron: Cron, instant: int) -> None:
        moment = iso(instant)
        body = {
            "data": {"cron": cron.expression, "fireAt": moment, "scheduledAt": moment},
            "id": moment,
            "name": "inngest/scheduled.timer",
            "ts": instant,
            "user": {},
        }
        self._settle(change, (function.slug, cron.expression), instant)
        self._intake.fire_cron(change, function, Event(self._ulids.new(), body, change.now_ms))

    def _settle(self, change: Change, key: tuple[str, str], instant: int) -> None:
        self._instants[key] = instant
        change.add("INSERT OR REPLACE INTO crons (function, expression, last_instant) VALUES (?,?,?)", *key, instant)


def _expressions(function: Function) -> set[str]:
    return {cron.expression for cron in function.crons}
