"""Turns that a machine started and that end without a word to the user. Pure."""

from collections.abc import Iterable

NO_REPLY = "NO_REPLY"
"""What a model answers where there is nothing to tell."""

HINT = f"If there is nothing to tell the user, answer {NO_REPLY} and nothing else."

MONITOR, WAKE, HEARTBEAT, OUTSIDE, COMMAND = "the monitor", "wake", "heartbeat", "outside", "a background command"
MAY_END_QUIETLY = frozenset({MONITOR, WAKE, HEARTBEAT, OUTSIDE, COMMAND})
"""Origins of inputs that nobody waits for an answer to."""


def says_nothing(text: str) -> bool:
    return text.strip(" \t\n.`*\"'") == NO_REPLY


def is_quiet(text: str, state: str, origins: Iterable[str]) -> bool:
    """Whether a turn that answers inputs of these origins with `text` tells the user nothing.

    A question of the monitor is put again where its turn failed, and in the end a person is told.
    """
    asked = set(origins)
    if state == "failed":
        return asked == {MONITOR}
    return says_nothing(text) and bool(asked) and asked <= MAY_END_QUIETLY
