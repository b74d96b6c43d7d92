"""Named places where a test kills the process, to prove that what is promised survives it."""

import os
import signal

_armed: dict[str, int] = {}


def arm(spec: str) -> None:
    """Arm `name` or `name:n` (the n-th time it is reached); an empty text disarms everything."""
    _armed.clear()
    if spec:
        name, _, count = spec.partition(":")
        _armed[name] = int(count or 1)


def reach(name: str) -> None:
    """End the process as `kill -9` would, if `name` is armed and its count is reached."""
    if name not in _armed:
        return
    _armed[name] -= 1
    if _armed[name] <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
