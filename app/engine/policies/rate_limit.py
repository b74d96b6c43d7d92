"""Rate limit and idempotency: starts beyond a rate are dropped; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.expressions import Expression
from app.engine.policies.durations import count, duration_ms
from app.engine.policies.gcra import Rate, Turn
from app.engine.policies.keys import key_of, parse_key

_DAY_MS = 86_400_000
#: Inngest lets a tenth of the limit come at once, and one more.
_BURST_SHARE = 10


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `rate.limit` starts of a key in the period; what comes sooner is dropped."""

    name: str
    rate: Rate
    expression: Expression | None

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "RateLimit":
        limit, period_ms = count("rateLimit", config, "limit"), duration_ms("rateLimit", config, "period")
        return cls("rateLimit", Rate(limit, period_ms or 0, limit // _BURST_SHARE + 1), parse_key(config))

    @classmethod
    def idempotency(cls, source: str) -> "RateLimit":
        """Once in 24 hours per key: Inngest registers it as a rate limit (recorded in `/dev`)."""
        return cls("idempotency", Rate(1, _DAY_MS, 1), Expression.compile(source))

    def key(self, event: Mapping[str, Any], now_ms: int) -> str | None:
        """The key of a start; None: this event is not limited."""
        return key_of(self.expression, event, now_ms)

    def decide(self, now_ms: int, tat_us: int) -> Turn:
        """Run if it is allowed, else drop."""
        return self.rate.turn(now_ms * 1000, tat_us)
