"""Batches: events of a key are collected into one run; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.expressions import Expression
from app.engine.policies.durations import count, duration_ms
from app.engine.policies.keys import key_of, parse_key

#: Inngest's hard cap on the events of one batch.
MAX_BATCH_BYTES = 10_485_760


@dataclass(frozen=True, slots=True)
class Batch:
    """A run starts with up to `max_size` events of a key, at the latest `timeout_ms` after the first."""

    max_size: int
    timeout_ms: int
    condition: Expression | None
    expression: Expression | None

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "Batch | None":
        """None for batches of one, which are none."""
        size, timeout_ms = count("batchEvents", config, "maxSize"), duration_ms("batchEvents", config, "timeout")
        condition = config.get("if")
        if size == 1:
            return None
        return cls(size, timeout_ms or 0, Expression.compile(str(condition)) if condition else None, parse_key(config))

    def key(self, event: Mapping[str, Any], now_ms: int) -> str | None:
        """The key of an event; None: it is not batched and starts a run of its own."""
        if self.condition is not None and not self.condition.test({"event": event}, now_ms):
            return None
        return key_of(self.expression, event, now_ms)

    def is_full(self, events: int, size_bytes: int) -> bool:
        """Whether a batch starts now."""
        return events >= self.max_size or size_bytes >= MAX_BATCH_BYTES
