"""What an accepted event does: cancels runs, wakes waiting steps, starts functions; all in one Change."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from app.engine import events as door
from app.engine.change import Change
from app.engine.ending import Ending
from app.engine.functions import CancelOn, Function
from app.engine.ids import Ulids
from app.engine.live import Live
from app.engine.model import DISCOVERY, LIFECYCLE_EVENTS, RUNNING, SCHEDULED, Event, Memos, Run
from app.engine.policies.singleton import Decision
from app.engine.registry import Registry
from app.engine.steps import Steps

log = logging.getLogger("moab.engine")
_SENT, _REPEATED, _INTERNAL = 0, 1, 2


class Intake:
    """Takes events in. Order within one event: cancel, wake, start; so that no event cancels what it starts."""

    def __init__(
        self, live: Live, registry: Registry, steps: Steps, ending: Ending, ulids: Ulids, *, lossy: bool
    ) -> None:
        self._live = live
        self._registry = registry
        self._steps = steps
        self._ending = ending
        self._ulids = ulids
        self._lossy = lossy

    def send(self, change: Change, wire_events: Sequence[Mapping[str, Any]]) -> list[str]:
        """Accept events from outside; returns their internal ids. Raises BadEvent before anything is changed."""
        accepted = door.accept(wire_events, self._ulids, change.now_ms)
        for wire, event in zip(wire_events, accepted, strict=True):
            own_id = door.has_own_id(wire)
            if own_id and self._live.knows_event_id(event):
                change.event(event, _REPEATED)
                continue
            if own_id:
                self._live.remember_event_id(event.name, event.id, event.received_ms)
                change.event_id(event)
            change.event(event, _SENT)
            self._take(change, event)
            self.settle(change)
        return [event.internal_id for event in accepted]

    def settle(self, change: Change) -> None:
        """Take in the engine's own events until none is left."""
        while change.emitted:
            event = change.emitted.pop(0)
            if self._matters(event):
                change.event(event, _INTERNAL)
                self._take(change, event)

    def fire_cron(self, change: Change, function: Function, event: Event) -> None:
        """A cron instant starts its function."""
        change.event(event, _INTERNAL)
        self.start(change, function, event)
        self.settle(change)

    def start(
        self, change: Change, function: Function, event: Event, parent: tuple[str, str] | None = None
    ) -> Run | None:
        """Start a run, or None when a policy drops the start."""
        key = function.singleton.key(event.body, change.now_ms) if function.singleton else None
        if key is not None and not self._may_start(change, function, key):
            log.info("Event %s starts no run of %s: its singleton is busy.", event.internal_id, function.slug)
            return None
        later = event.ts > change.now_ms and parent is None
        run = Run(
            id=self._ulids.new(),
            function=function.slug,
            event=event,
            created_ms=change.now_ms,
            status=SCHEDULED if later else RUNNING,
            quiet=event.name in LIFECYCLE_EVENTS,
            parent=parent,
            singleton_key=key,
            started_ms=None if later else change.now_ms,
            memos=Memos(),
        )
        self._live.add(run)
        change.run(run)
        self._steps.call(change, run, DISCOVERY, parallel=False, due_ms=event.ts if later else None)
        return run

    def _may_start(self, change: Change, function: Function, key: str) -> bool:
        singleton, slot = function.singleton, (function.slug, key)
        active = self._live.singleton(*slot)
        cancelled_at = self._live.cancelled_at.get(slot) if self._lossy else None
        ago = None if cancelled_at is None else change.now_ms - cancelled_at
        decision = singleton.decide(active is not None, ago) if singleton else Decision.RUN
        if decision is Decision.CANCEL_ACTIVE and active is not None:
            if self._lossy:
                self._live.cancelled_at[slot] = change.now_ms
            log.info("Run %s of %s is cancelled: a newer start has its key.", active.id, function.slug)
            self._ending.cancel(change, active)
        return decision is not Decision.SKIP

    def _matters(self, event: Event) -> bool:
        triggers = self._registry.triggers
        return (
            any(True for _ in triggers.starts(event.name, event.body, event.received_ms))
            or any(True for _ in self._live.waits_for(event))
            or bool(triggers.cancels(event.name))
        )

    def _take(self, change: Change, event: Event) -> None:
        for function, cancel in self._registry.triggers.cancels(event.name):
            for run in self._live.of_function(function.slug):
                if _cancels(cancel, run, event, change.now_ms):
                    log.info("Run %s of %s is cancelled by event %s.", run.id, run.function, event.internal_id)
                    self._ending.cancel(change, run)
        for wait in self._live.waits_for(event):
            names = {"event": wait.run.event.body, "async": event.body}
            if wait.condition is None or wait.condition.test(names, change.now_ms):
                self._steps.finish(change, wait.run, wait.step, event.raw.decode())
        for function in self._registry.triggers.starts(event.name, event.body, change.now_ms):
            self.start(change, function, event)


def _cancels(cancel: CancelOn, run: Run, event: Event, now_ms: int) -> bool:
    if cancel.within_ms is not None and now_ms > run.created_ms + cancel.within_ms:
        return False
    names = {"event": run.event.body, "async": event.body}
    return cancel.condition is None or cancel.condition.test(names, now_ms)
