"""One process owns the engine's file: a lock beside it that ends with the process, however it ends."""

import os
from pathlib import Path

from filelock import FileLock, Timeout

from app.engine.errors import EngineLocked


class OwnerLock:
    """Held from start to stop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = path.with_name(path.name + ".owner")
        self._lock = FileLock(path.with_name(path.name + ".lock"), thread_local=False)

    def acquire(self) -> None:
        """Take the lock; raises EngineLocked, naming the process that holds it."""
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            owner = self._owner.read_text().strip() if self._owner.exists() else "unknown"
            raise EngineLocked(
                f"{self._path} is already open in another process (pid {owner}). "
                "Stop that one first, or give this one a file of its own."
            ) from None
        self._owner.write_text(str(os.getpid()))

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        if self._lock.is_locked:
            self._owner.unlink(missing_ok=True)
            self._lock.release()
