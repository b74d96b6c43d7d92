"""Priority: a run's place among those that wait, shifted by seconds; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.expressions import Expression

#: Inngest's bounds, in seconds.
MAX_SHIFT_S = 600


@dataclass(frozen=True, slots=True)
class Priority:
    """`run` gives seconds: a run goes ahead of those that came up to so many seconds before it."""

    run: Expression

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "Priority | None":
        source = config.get("run")
        return cls(Expression.compile(str(source))) if source else None

    def shift_s(self, event: Mapping[str, Any], now_ms: int) -> int:
        """Seconds from -600 to 600; anything but a whole number counts as 0."""
        value = self.run.evaluate({"event": event}, now_ms)
        if isinstance(value, bool) or not isinstance(value, int):
            return 0
        return max(-MAX_SHIFT_S, min(MAX_SHIFT_S, value))


def place(created_ms: int, shift_s: int) -> int:
    """Where a run stands: the smaller, the sooner."""
    return created_ms - shift_s * 1000
