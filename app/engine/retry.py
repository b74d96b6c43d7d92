"""When a failed call is made again: Inngest's documented table with up to 30 seconds of jitter; pure."""

import re

from app.engine.clock import LATEST_MS, parse_iso

BACKOFF_S = (15, 30, 60, 120, 300, 600, 1_200, 2_400, 3_600, 7_200)
JITTER_MS = 30_000
DEFAULT_RETRIES = 4
_SECONDS = re.compile(r"[0-9]{1,12}")
#: A call that was cut off by the end of the process this often counts as an attempt from then on.
FREE_INTERRUPTIONS = 2


def backoff_ms(failed_attempt: int, jitter: float) -> int:
    """Milliseconds to wait after attempt `failed_attempt` (from 0); `jitter` is in [0, 1)."""
    table = BACKOFF_S[min(failed_attempt, len(BACKOFF_S) - 1)]
    return table * 1000 + int(jitter * JITTER_MS)


def retry_at(now_ms: int, failed_attempt: int, jitter: float, retry_after: str | None) -> int:
    """The moment of the next attempt; `retry_after` is the answer's header (ISO moment or seconds), if any."""
    if retry_after:
        named = parse_iso(retry_after)
        if _SECONDS.fullmatch(retry_after.strip()):
            named = now_ms + int(retry_after) * 1000
        if named is not None:
            return max(now_ms, min(named, LATEST_MS))
    return now_ms + backoff_ms(failed_attempt, jitter)


def interrupted_attempt(attempt: int, interruptions: int) -> int:
    """The attempt number after the process ended during a call for the `interruptions`-th time."""
    return attempt + 1 if interruptions > FREE_INTERRUPTIONS else attempt
