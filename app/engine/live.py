"""The open runs in memory, and every index that a decision needs; no I/O and no decision of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.engine.expressions import Expression
from app.engine.model import Event, Held, Run, Step

DEDUPE_MS = 86_400_000


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """A step that waits for an event."""

    run: Run
    step: Step
    condition: Expression | None


class Live:
    """Open runs by id, function, singleton key; waiting steps by event name; sender ids of the last day."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self._by_function: dict[str, dict[str, Run]] = {}
        self._singletons: dict[tuple[str, str], Run] = {}
        self._waits: dict[str, dict[tuple[str, str], Wait]] = {}
        self._event_ids: dict[tuple[str, str], int] = {}
        #: When a singleton start last cancelled a run of this key; only kept for the lossy switch.
        self.cancelled_at: dict[tuple[str, str], int] = {}
        #: How far rate limits and throttles have got, by policy, function and key.
        self.rates: dict[tuple[str, str, str], int] = {}
        #: Starts that wait for quiet or company, by policy, function and key; and those of paused functions.
        self.held: dict[tuple[str, str, str], Held] = {}
        self.paused: dict[str, list[Held]] = {}
        self._sends: dict[str, tuple[int, list[str]]] = {}
        self.next_job = 1
        self.next_held = 1

    def add(self, run: Run) -> None:
        self.runs[run.id] = run
        self._by_function.setdefault(run.function, {})[run.id] = run
        if run.singleton_key is not None:
            self._singletons[run.function, run.singleton_key] = run

    def remove(self, run: Run) -> None:
        """Forget an ended run."""
        self.runs.pop(run.id, None)
        self._by_function.get(run.function, {}).pop(run.id, None)
        if run.singleton_key is not None and self._singletons.get((run.function, run.singleton_key)) is run:
            del self._singletons[run.function, run.singleton_key]
        for step in run.open.values():
            self.stop_waiting(run, step)

    def of_function(self, slug: str) -> list[Run]:
        return list(self._by_function.get(slug, {}).values())

    def singleton(self, slug: str, key: str) -> Run | None:
        return self._singletons.get((slug, key))

    def wait(self, wait: Wait) -> None:
        self._waits.setdefault(wait.step.target or "", {})[wait.run.id, wait.step.id] = wait

    def stop_waiting(self, run: Run, step: Step) -> None:
        waits = self._waits.get(step.target or "")
        if waits and waits.pop((run.id, step.id), None) and not waits:
            del self._waits[step.target or ""]

    def waits_for(self, event: Event) -> Iterator[Wait]:
        yield from list(self._waits.get(event.name, {}).values())

    def remember_event_id(self, name: str, event_id: str, received_ms: int) -> None:
        self._event_ids[name, event_id] = received_ms

    def knows_event_id(self, event: Event) -> bool:
        """Whether an event of this name and sender id was accepted in the last 24 hours."""
        seen = self._event_ids.get((event.name, event.id))
        return seen is not None and event.received_ms - seen < DEDUPE_MS

    def forget_event_ids(self, before_ms: int) -> None:
        self._event_ids = {key: seen for key, seen in self._event_ids.items() if seen >= before_ms}

    def remember_send(self, seed: str, received_ms: int, ids: list[str]) -> None:
        self._sends[seed] = (received_ms, ids)

    def ids_of_send(self, seed: str) -> list[str] | None:
        """The ids that an earlier try of the same request got."""
        known = self._sends.get(seed)
        return known[1] if known else None

    def forget_sends(self, before_ms: int) -> None:
        """They come in order of time, so the old ones are in front."""
        while self._sends:
            seed, (received_ms, _) = next(iter(self._sends.items()))
            if received_ms >= before_ms:
                return
            del self._sends[seed]

    def held_id(self) -> int:
        number = self.next_held
        self.next_held += 1
        return number

    def job_id(self) -> int:
        number = self.next_job
        self.next_job += 1
        return number
