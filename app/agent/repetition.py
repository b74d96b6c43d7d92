"""A breaker for turns that make the same calls again and again. Pure."""

import hashlib
import json
from collections.abc import Sequence

from app.sentences import Sentence

NOTE_AFTER = 2
"""Rounds in a row with the very same calls after which the model is told."""

STOP_AFTER = 5
"""Rounds in a row with the very same calls after which the turn ends."""

STOPPED = Sentence("I stopped because I was making the same call again and again without getting further: {names}.")


def fingerprint(name: str, arguments: str) -> str:
    """The same for calls of the same tool whose arguments mean the same JSON, whatever their spelling."""
    try:
        same = json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        same = arguments
    return hashlib.sha256(f"{name}\x00{same}".encode("utf-8", "replace")).hexdigest()[:16]


def of_round(prints: Sequence[str]) -> str:
    """One print for all calls of a round, in whatever order they were asked for."""
    return ".".join(sorted(prints))


def repeat_note(repeats: int) -> str:
    """What the model is told after `repeats` rounds in a row that were the same as the one before."""
    return (
        f"You made exactly the same calls {repeats + 1} times in a row. Their results will not change. "
        "Use what you have, try something else, or answer the user."
    )
