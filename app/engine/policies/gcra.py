"""The generic cell rate algorithm, with which Inngest limits rates and throttles; pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """A decision: whether it is one's turn now, when it is, and what to remember if one takes it."""

    allowed: bool
    at_us: int
    tat_us: int


@dataclass(frozen=True, slots=True)
class Rate:
    """`limit` in `period_ms`, of which `capacity` may come at once. One number per key is remembered: the
    theoretical arrival time (tat), in microseconds since 1970; 0 when there is none."""

    limit: int
    period_ms: int
    capacity: int

    def turn(self, now_us: int, tat_us: int) -> Turn:
        """Decide for one more at `now_us`."""
        interval = max(1, self.period_ms * 1000 // self.limit)
        next_tat = max(tat_us, now_us) + interval
        at_us = next_tat - interval * self.capacity
        return Turn(at_us <= now_us, max(at_us, now_us), next_tat)
