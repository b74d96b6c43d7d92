"""Singleton: at most one active run per key; a new start is skipped, or cancels the active run."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from app.engine.errors import BadFunction
from app.engine.expressions import Expression
from app.engine.model import to_json

#: How long the real server drops further starts for a key after a start that cancelled another (measured).
LOSSY_WINDOW_MS = 150


class Decision(Enum):
    """What becomes of a start."""

    RUN = "run"
    SKIP = "skip"
    CANCEL_ACTIVE = "cancel the active run, then run"


@dataclass(frozen=True, slots=True)
class Singleton:
    """`mode` is `skip` or `cancel`; without `expression` the whole function is one key."""

    mode: str
    expression: Expression | None

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "Singleton":
        if config.get("mode") not in ("skip", "cancel"):
            raise BadFunction(f"A singleton's mode must be 'skip' or 'cancel', not {config.get('mode')!r}.")
        key = config.get("key")
        return cls(str(config["mode"]), Expression.compile(str(key)) if key else None)

    def key(self, event: Mapping[str, Any], now_ms: int) -> str | None:
        """The key of a start, or None when this event makes no singleton (key is false, null or missing)."""
        if self.expression is None:
            return ""
        value = self.expression.evaluate({"event": event}, now_ms)
        return None if value is None or value is False else to_json(value)

    def decide(self, has_active: bool, cancelled_ms_ago: int | None = None) -> Decision:
        """`cancelled_ms_ago`: with the lossy switch, when a start last cancelled a run of this key."""
        if cancelled_ms_ago is not None and cancelled_ms_ago < LOSSY_WINDOW_MS:
            return Decision.SKIP
        if not has_active:
            return Decision.RUN
        return Decision.SKIP if self.mode == "skip" else Decision.CANCEL_ACTIVE
