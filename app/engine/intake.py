"""What an accepted event does: cancels runs, wakes waiting steps, starts functions; all in one Change."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.engine import events as door
from app.engine.change import Change
from app.engine.ending import Ending
from app.engine.functions import CancelOn, Function
from app.engine.ids import Ulids
from app.engine.live import Live
from app.engine.model import Event, Run, to_json
from app.engine.registry import Registry
from app.engine.starts import Starts
from app.engine.steps import Steps

_SENT, _REPEATED, _INTERNAL = 0, 1, 2


class Intake:
    """Takes events in. Order within one event: cancel, wake, start; so that no event cancels what it starts."""

    def __init__(
        self, live: Live, registry: Registry, steps: Steps, ending: Ending, starts: Starts, ulids: Ulids,
        max_event_bytes: int,
    ) -> None:  # fmt: skip
        self._live = live
        self._registry = registry
        self._steps = steps
        self._ending = ending
        self._starts = starts
        self._ulids = ulids
        self._max_event_bytes = max_event_bytes

    def send(self, change: Change, wire_events: Sequence[Mapping[str, Any]], seed: str | None = None) -> list[str]:
        """Accept events from outside; returns their internal ids. Raises BadEvent before anything is changed.

        `seed` marks a request that its sender may repeat: the second one changes nothing and gets the same ids.
        """
        known = self._live.ids_of_send(seed) if seed else None
        if known is not None:
            return known
        accepted = door.accept(wire_events, self._ulids, change.now_ms, self._max_event_bytes)
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
        ids = [event.internal_id for event in accepted]
        if seed:
            self._live.remember_send(seed, change.now_ms, ids)
            change.add("INSERT OR REPLACE INTO sends (seed, ids, received_at) VALUES (?,?,?)",
                       seed, to_json(ids), change.now_ms)  # fmt: skip
        return ids

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
        self._starts.start(change, function, event)
        self.settle(change)

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
                    self._ending.cancel(change, run, f"Event {event.internal_id} ({event.name}) cancelled it.")
        for wait in self._live.waits_for(event):
            names = {"event": wait.run.event.body, "async": event.body}
            if wait.condition is None or wait.condition.test(names, change.now_ms):
                self._steps.finish(change, wait.run, wait.step, event.raw.decode())
        for function in self._registry.triggers.starts(event.name, event.body, change.now_ms):
            self._starts.start(change, function, event)


def _cancels(cancel: CancelOn, run: Run, event: Event, now_ms: int) -> bool:
    if cancel.within_ms is not None and now_ms > run.created_ms + cancel.within_ms:
        return False
    names = {"event": run.event.body, "async": event.body}
    return cancel.condition is None or cancel.condition.test(names, now_ms)
