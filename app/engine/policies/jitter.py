"""Jitter of cron schedules: how long after its instant a function starts; pure."""

import hashlib


def offset_ms(function: str, instant_ms: int, jitter_ms: int) -> int:
    """From 0 up to `jitter_ms`; the same for the same instant, so that a restart in between changes nothing."""
    if jitter_ms <= 0:
        return 0
    digest = hashlib.sha256(f"{function} {instant_ms}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % jitter_ms
