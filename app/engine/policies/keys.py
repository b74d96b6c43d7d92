"""Keys of policies: the value of an expression over the event, as text; pure."""

from collections.abc import Mapping
from typing import Any

from app.engine.expressions import Expression
from app.engine.model import to_json


def parse_key(config: Mapping[str, Any]) -> Expression | None:
    """The `key` of a policy's configuration, if it has one; raises BadExpression."""
    source = config.get("key")
    return Expression.compile(str(source)) if source else None


def key_of(expression: Expression | None, event: Mapping[str, Any], now_ms: int) -> str | None:
    """The key of an event; without an expression the whole function is one key.

    None when the expression says false: Inngest then leaves the event out of the policy. A missing field is a key too.
    """
    if expression is None:
        return ""
    value = expression.evaluate({"event": event}, now_ms)
    return None if value is False else to_json(value)
