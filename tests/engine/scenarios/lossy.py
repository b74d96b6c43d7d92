"""`SINGLETON_LOSSY=1`: the server may lose starts of a burst with one singleton key, as a real one was measured to."""

import os
from typing import Any


def singleton_lossy() -> bool:
    return bool(os.environ.get("SINGLETON_LOSSY"))


def are_over(ends: list[Any]) -> bool:
    """Whether runs are cancelled or completed, some of them the latter: what holds of a lossy server as well."""
    statuses = {status for status, _ in ends}
    return "Completed" in statuses and statuses <= {"Completed", "Cancelled"}
