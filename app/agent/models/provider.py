"""What providers want beside plain messages, and what they give beside words: cache marks and thinking. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

CACHE_MARK = {"type": "ephemeral"}
MARKED = ("anthropic/", "bedrock/anthropic", "bedrock/us.anthropic", "vertex_ai/claude", "openrouter/anthropic")
"""Models whose providers cache what is marked, and only that; the others cache equal beginnings by themselves."""

MAX_THINKING_CHARS = 200_000
MESSAGE_FIELDS = ("thinking_blocks", "reasoning_content")

Message = Mapping[str, Any]


def takes_marks(model: str) -> bool:
    return model.startswith(MARKED)


def marked(messages: Sequence[Message], stable: int) -> list[dict[str, Any]]:
    """`messages` with cache marks on the system prompt and on the last message that the next call begins with too.

    `stable` is how many messages that are: notes behind them are for this call alone.
    """
    found = [dict(message) for message in messages]
    for place in {0, min(stable, len(found)) - 1}:
        if 0 <= place < len(found):
            found[place] = _mark(found[place])
    return found


def _mark(message: dict[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if message["role"] in ("system", "user") and content:
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        return message | {"content": [*parts[:-1], parts[-1] | {"cache_control": CACHE_MARK}]}
    if message["role"] == "tool":
        return message | {"cache_control": CACHE_MARK}
    return message


def thinking_of(message: Any) -> dict[str, Any] | None:
    """What a model thought, in its provider's form, to be sent back to it: fields of the message and of its calls."""
    fields = {name: _plain(value) for name in MESSAGE_FIELDS if (value := getattr(message, name, None))}
    calls = [_plain(_field(call, "provider_specific_fields")) for call in getattr(message, "tool_calls", None) or ()]
    found = {"message": fields} | ({"calls": calls} if any(calls) else {})
    return found if (fields or any(calls)) and len(str(found)) <= MAX_THINKING_CHARS else None


def with_thinking(message: dict[str, Any], thinking: Mapping[str, Any]) -> dict[str, Any]:
    """An assistant message as the model that thought it gave it."""
    of_calls = thinking.get("calls") or ()
    calls = list(message.get("tool_calls") or ())
    for place, fields in enumerate(of_calls[: len(calls)]):
        if fields:
            calls[place] = calls[place] | {"provider_specific_fields": fields}
    return message | dict(thinking.get("message") or {}) | ({"tool_calls": calls} if calls else {})


def may_think(model: str, messages: Sequence[Message]) -> bool:
    """Whether thinking may be asked for: Claude refuses it in the middle of a turn whose calls were made without."""
    if "claude" not in model and "anthropic" not in model:
        return True
    for message in reversed(messages):
        if message["role"] == "user" and not _words(message).startswith("[System note:"):
            return True
        if message["role"] == "assistant" and message.get("tool_calls"):
            return bool(message.get("thinking_blocks"))
    return True


def _words(message: Message) -> str:
    """The text of a message, or the first one of its parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else str(content[0].get("text", ""))


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _plain(value: Any) -> Any:
    """JSON of what may be objects of the client library."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return _plain(value.model_dump(exclude_none=True)) if hasattr(value, "model_dump") else value
