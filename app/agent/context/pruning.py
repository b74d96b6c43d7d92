"""Two-layer pruning of what the model sees; the record is never changed. Pure."""

from collections.abc import Sequence
from typing import Any

SOFT_TRIM_OVER_CHARS = 4_000
SOFT_KEEP_CHARS = 1_500
HARD_CLEAR_OVER_CHARS = 50_000
PROTECTED_TURNS = 3
CLEARED = "[Tool result cleared]"
PICTURES = "pictures"
"""The key under which a message names the pictures that belong to it, until they are put in their places."""

PICTURE_CHARS = 6_000
"""What a picture counts like, in characters: about 1,500 tokens."""

Message = dict[str, Any]


def prune(messages: Sequence[Message], *, protected_turns: int = PROTECTED_TURNS) -> list[Message]:
    """Soft trim, then hard clear where the whole is still over the limit (the system prompt does not count).

    The last `protected_turns` assistant messages and their results stay whole.
    """
    border = _border(messages, protected_turns)
    size_trimmed = size(messages) - sum(_freed(m) for m in messages[:border])
    change = _soft_trim if size_trimmed <= HARD_CLEAR_OVER_CHARS else _hard_clear
    return [*map(change, messages[:border]), *messages[border:]]


def size(messages: Sequence[Message]) -> int:
    """Characters of all messages without the system prompt: texts, tool results and arguments."""
    return sum(_length(m) for m in messages if m["role"] != "system")


def _length(message: Message) -> int:
    calls = message.get("tool_calls") or ()
    content = message.get("content") or ""
    length = len(content) if isinstance(content, str) else sum(len(p.get("text", "")) or PICTURE_CHARS for p in content)
    return length + sum(len(c["function"]["arguments"]) for c in calls)


def _border(messages: Sequence[Message], protected_turns: int) -> int:
    turns = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    if protected_turns <= 0 or not turns:
        return len(messages)
    return turns[-protected_turns] if len(turns) >= protected_turns else 0


def _soft_trim(message: Message) -> Message:
    if not _is_long(message):
        return message
    content = message["content"]
    trimmed = f"{content[:SOFT_KEEP_CHARS]}{_left_out(message)}{content[-SOFT_KEEP_CHARS:]}"
    return message | {"content": trimmed}


def _is_long(message: Message) -> bool:
    return message["role"] == "tool" and len(message["content"]) > SOFT_TRIM_OVER_CHARS


def _left_out(message: Message) -> str:
    return f"\n[… {len(message['content']) - 2 * SOFT_KEEP_CHARS} characters left out …]\n"


def _freed(message: Message) -> int:
    """Characters that the soft trim takes away."""
    if not _is_long(message):
        return 0
    return len(message["content"]) - 2 * SOFT_KEEP_CHARS - len(_left_out(message))


def _hard_clear(message: Message) -> Message:
    if message["role"] != "tool":
        return message
    return {key: value for key, value in message.items() if key != PICTURES} | {"content": CLEARED}


def shrink(messages: Sequence[Message], level: int) -> list[Message]:
    """Less and less of a context the model refused as too long; the newest user message always stays.

    Level 1 clears every old result, 2 also trims the newest results, 3 and over drop the older half each time.
    A call and its results go together.
    """
    if level <= 0:
        return list(messages)
    border = _border(messages, 1)
    result = [_hard_clear(m) if i < border else m for i, m in enumerate(messages)]
    if level >= 2:
        result = [_soft_trim(m) for m in result]
    for _ in range(level - 2):
        result = _drop_older_half(result)
    return result


def _drop_older_half(messages: list[Message]) -> list[Message]:
    """Cut where a user speaks; in a long turn behind the newest user message, where an assistant does."""
    system = [m for m in messages if m["role"] == "system"]
    rest = [m for m in messages if m["role"] != "system"]
    newest = max((i for i, m in enumerate(rest) if m["role"] == "user"), default=None)
    if newest is None:
        return messages
    middle = len(rest) // 2
    if newest >= middle:
        start = next(i for i in range(middle, len(rest)) if rest[i]["role"] == "user")
        return system + rest[start:]
    turns = [i for i, m in enumerate(rest) if m["role"] == "assistant" and i > newest]
    start = next((i for i in turns if i >= middle), turns[-1])
    return [*system, rest[newest], *rest[start:]]
