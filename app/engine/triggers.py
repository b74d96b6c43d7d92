"""Which functions an event starts: exact names and trailing wildcards, then the trigger's expression."""

from collections.abc import Iterable, Iterator
from typing import Any

from app.engine.functions import CancelOn, EventTrigger, Function


class Triggers:
    """An index over the functions that may start; rebuilt whenever an app registers."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._exact: dict[str, list[tuple[Function, EventTrigger]]] = {}
        self._prefixes: list[tuple[str, Function, EventTrigger]] = []
        self._cancels: dict[str, list[tuple[Function, CancelOn]]] = {}
        for function in functions:
            for trigger in function.triggers:
                if is_wildcard(trigger.pattern):
                    self._prefixes.append((trigger.pattern[:-1], function, trigger))
                else:
                    self._exact.setdefault(trigger.pattern, []).append((function, trigger))
            for cancel in function.cancels:
                self._cancels.setdefault(cancel.event, []).append((function, cancel))

    def starts(self, name: str, body: Any, now_ms: int) -> Iterator[Function]:
        """Each function that the event starts, once."""
        seen: set[str] = set()
        candidates = list(self._exact.get(name, ()))
        candidates += [(function, trigger) for prefix, function, trigger in self._prefixes if name.startswith(prefix)]
        for function, trigger in candidates:
            if function.slug in seen:
                continue
            if trigger.condition is None or trigger.condition.test({"event": body}, now_ms):
                seen.add(function.slug)
                yield function

    def cancels(self, name: str) -> list[tuple[Function, CancelOn]]:
        """The functions whose runs this event may cancel."""
        return self._cancels.get(name, [])


def is_wildcard(pattern: str) -> bool:
    """Inngest's rule: the star ends the name and follows a separator."""
    return pattern.endswith(("/*", ".*"))
