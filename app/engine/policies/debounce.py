"""Debounce: a start waits until its key has been quiet; the last event wins; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.expressions import Expression
from app.engine.policies.durations import duration_ms
from app.engine.policies.keys import key_of, parse_key


@dataclass(frozen=True, slots=True)
class Debounce:
    """Starts `period_ms` after the last event of a key, at the latest `timeout_ms` after the first."""

    period_ms: int
    timeout_ms: int | None
    expression: Expression | None

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "Debounce":
        period_ms = duration_ms("debounce", config, "period") or 0
        return cls(period_ms, duration_ms("debounce", config, "timeout", required=False), parse_key(config))

    def key(self, event: Mapping[str, Any], now_ms: int) -> str | None:
        """The key of a start; None: this event is not debounced."""
        return key_of(self.expression, event, now_ms)

    def wins(self, event_ts: int, held_ts: int) -> bool:
        """Whether a new event takes the place of the one that waits: one that is older does not."""
        return event_ts >= held_ts

    def latest_ms(self, first_ms: int) -> int | None:
        """When the start may be put off no longer."""
        return None if self.timeout_ms is None else first_ms + self.timeout_ms

    def due_ms(self, now_ms: int, latest_ms: int | None) -> int:
        """When to start, after an event at `now_ms`."""
        due_ms = now_ms + self.period_ms
        return due_ms if latest_ms is None else min(due_ms, max(latest_ms, now_ms))
