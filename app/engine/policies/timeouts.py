"""Timeouts: a run that does not start or finish in time is cancelled; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.policies.durations import duration_ms


@dataclass(frozen=True, slots=True)
class Verdict:
    """Cancel now for `reason`, or look again at `look_at_ms`, or (neither) never again."""

    reason: str | None = None
    look_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """`start_ms` from the moment a run is due to its first call, `finish_ms` from there to its end."""

    start_ms: int | None
    finish_ms: int | None

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> "Timeouts | None":
        start_ms = duration_ms("timeouts", config, "start", required=False)
        finish_ms = duration_ms("timeouts", config, "finish", required=False)
        return cls(start_ms, finish_ms) if start_ms or finish_ms else None

    def decide(self, now_ms: int, planned_ms: int, started_ms: int | None) -> Verdict:
        """About an open run that was to begin at `planned_ms` and began at `started_ms`, if it did."""
        if started_ms is None:
            return self._not_started(now_ms, planned_ms)
        if self.finish_ms is None:
            return Verdict()
        if started_ms + self.finish_ms <= now_ms:
            return Verdict(f"It did not finish within {self.finish_ms / 1000:g} s.")
        return Verdict(look_at_ms=started_ms + self.finish_ms)

    def _not_started(self, now_ms: int, planned_ms: int) -> Verdict:
        looks = []
        if self.start_ms is not None:
            if planned_ms + self.start_ms <= now_ms:
                return Verdict(f"It did not start within {self.start_ms / 1000:g} s.")
            looks.append(planned_ms + self.start_ms)
        if self.finish_ms is not None:
            looks.append(max(planned_ms, now_ms) + self.finish_ms)
        return Verdict(look_at_ms=min(looks))
