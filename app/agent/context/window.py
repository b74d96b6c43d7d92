"""How much of a model's window a context takes, and when that is too much. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.agent.context.pruning import Message, size
from app.sessions.usage import LastCall

FULL_AT = 0.8
"""At this part of the window older messages are summarised."""

WORTH_A_SUMMARY = 0.1
"""A summary is made only of what takes this part of the window at least: else it would be made again and again."""

CHARS_PER_TOKEN = 4
DEFAULT_WINDOW = 128_000


def window_of(setting: int, known: int) -> int:
    """Tokens: what the operator says, else what is known of the model, else what most take."""
    return setting or known or DEFAULT_WINDOW


def tokens_of(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], last: LastCall | None) -> int:
    """What the provider counted for the last call, and an estimate for what came since; else an estimate of it all."""
    if last is None:
        system = sum(len(m["content"]) for m in messages if m["role"] == "system")
        return (size(messages) + system + (len(json.dumps(tools)) if tools else 0)) // CHARS_PER_TOKEN
    spoken = max((place for place, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    return last.input_tokens + last.output_tokens + size(messages[spoken + 1 :]) // CHARS_PER_TOKEN


def is_full(tokens: int, window: int) -> bool:
    return tokens > window * FULL_AT


def worth_chars(window: int) -> int:
    """How many characters a summary must stand for at least."""
    return int(window * CHARS_PER_TOKEN * WORTH_A_SUMMARY)
