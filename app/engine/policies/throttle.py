"""Throttle: starts beyond a rate wait for their turn; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.expressions import Expression
from app.engine.policies.durations import count, duration_ms
from app.engine.policies.gcra import Rate, Turn
from app.engine.policies.keys import key_of, parse_key


@dataclass(frozen=True, slots=True)
class Throttle:
    """`limit + burst` starts of a key at once (as Inngest documents it), then one each `period / limit`."""

    rate: Rate
    expression: Expression | None

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "Throttle":
        limit, period_ms = count("throttle", config, "limit"), duration_ms("throttle", config, "period")
        burst = config.get("burst") or 0
        return cls(Rate(limit, period_ms or 0, limit + max(0, int(burst))), parse_key(config))

    def key(self, event: Mapping[str, Any], now_ms: int) -> str | None:
        """The key of a start; None: this event is not throttled."""
        return key_of(self.expression, event, now_ms)

    def decide(self, now_ms: int, tat_us: int) -> Turn:
        """Start if it is allowed, else wait until `at_us` and ask again."""
        return self.rate.turn(now_ms * 1000, tat_us)
