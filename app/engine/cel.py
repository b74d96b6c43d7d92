"""The operators and functions of Inngest's CEL over JSON values; pure, one small function per operator."""

import base64
import json
import re
from ast import literal_eval
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from app.engine.clock import from_ms, parse_duration, parse_iso


class _Missing:
    """A field that is not there, or the result of something that makes no sense."""

    def __repr__(self) -> str:
        return "missing"


MISSING = _Missing()


def truthy(value: Any) -> bool:
    """False, null, missing, zero and the empty text are false; everything else (also an empty list) is true."""
    if value is None or value is MISSING or value is False:
        return False
    return not (isinstance(value, int | float | str) and not value)


def is_number(value: Any) -> bool:
    """Whether the value is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equals(left: Any, right: Any) -> bool:
    """A missing field equals null and nothing else, not even another missing field."""
    if left is MISSING or right is MISSING:
        return left is None or right is None
    return _same(left, right)


def differs(left: Any, right: Any) -> bool:
    return not equals(left, right)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return bool(left == right)


def _order(left: Any, right: Any) -> int | None:
    """-1, 0 or 1, or None when the two have no order; null counts as the zero of the other's kind."""
    if left is None and right is not None:
        left = "" if isinstance(right, str) else 0
    elif right is None and left is not None:
        right = "" if isinstance(left, str) else 0
    comparable = (
        (is_number(left) and is_number(right))
        or (isinstance(left, str | bool | datetime | timedelta) and type(left) is type(right))
    )  # fmt: skip
    return (left > right) - (left < right) if comparable else None


def less(left: Any, right: Any) -> Any:
    if left is MISSING or right is MISSING:
        return left is MISSING
    order = _order(left, right)
    return MISSING if order is None else order < 0


def less_or_equal(left: Any, right: Any) -> Any:
    if left is MISSING or right is MISSING:
        return left is MISSING
    order = _order(left, right)
    return MISSING if order is None else order <= 0


def greater(left: Any, right: Any) -> Any:
    if left is MISSING or right is MISSING:
        return left is not MISSING
    order = _order(left, right)
    return MISSING if order is None else order > 0


def greater_or_equal(left: Any, right: Any) -> Any:
    if left is MISSING or right is MISSING:
        return left is not MISSING
    order = _order(left, right)
    return MISSING if order is None else order >= 0


def contained(item: Any, items: Any) -> Any:
    if item is MISSING or items is MISSING:
        return False
    if isinstance(items, list):
        return any(_same(item, other) for other in items)
    return item in items if isinstance(items, dict) and isinstance(item, str) else MISSING


def add(left: Any, right: Any) -> Any:
    """Numbers, texts, lists and times add; two different kinds are joined as text; missing adds nothing."""
    if left is MISSING or right is MISSING:
        other = right if left is MISSING else left
        return False if other is MISSING else other
    if is_number(left) and is_number(right):
        return left + right
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return left + right  # type: ignore[operator]
    return _text(left) + _text(right)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if value is None:
        return ""
    return str(value) if is_number(value) else json.dumps(value, default=str)


def _arithmetic(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def operate(left: Any, right: Any) -> Any:
        if left is MISSING or right is MISSING:
            return False
        return apply(left, right) if is_number(left) and is_number(right) else MISSING

    return operate


def _divide(left: Any, right: Any) -> Any:
    if not right:
        return MISSING
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) // abs(right) * (1 if (left < 0) is (right < 0) else -1)
    return left / right


def _modulo(left: Any, right: Any) -> Any:
    return MISSING if not right else left - right * int(left / right)


def subtract(left: Any, right: Any) -> Any:
    if isinstance(left, datetime) and isinstance(right, datetime | timedelta):
        return left - right
    return _subtract_numbers(left, right)


_subtract_numbers = _arithmetic(lambda left, right: left - right)
multiply = _arithmetic(lambda left, right: left * right)
divide = _arithmetic(_divide)
modulo = _arithmetic(_modulo)


def negate(value: Any) -> Any:
    if value is MISSING:
        return False
    return not value if isinstance(value, bool) else MISSING


def minus(value: Any) -> Any:
    if value is MISSING:
        return False
    return -value if is_number(value) else MISSING


def member(owner: Any, key: Any) -> Any:
    """A field of an object or an item of a list; MISSING when there is none."""
    if isinstance(owner, dict):
        return owner.get(key, MISSING) if isinstance(key, str | int | float) else MISSING
    if isinstance(owner, list) and isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(owner):
        return owner[key]
    return MISSING


def literal(token: Any) -> Any:
    """The value of a literal of the grammar."""
    kind, text = token.type, str(token)
    if kind in ("BOOL_LIT", "NULL_LIT"):
        return {"true": True, "false": False, "null": None}[text]
    if kind == "UINT_LIT":
        return int(text.rstrip("uU"), 0)
    if kind == "INT_LIT":
        return int(text, 0)
    if kind == "FLOAT_LIT":
        return float(text)
    value = literal_eval(text)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def fold(macro: str, items: list[Any], body: Callable[[Any], Any]) -> Any:
    """The list macros: exists, all, exists_one, filter, map."""
    if macro == "map":
        return [body(item) for item in items]
    kept = [item for item in items if truthy(body(item))]
    if macro == "filter":
        return kept
    if macro == "exists":
        return bool(kept)
    return len(kept) == 1 if macro == "exists_one" else len(kept) == len(items)


def call(name: str, arguments: list[Any]) -> Any:
    """A function of the table; on a missing field size is 0 and everything else is false."""
    if any(argument is MISSING for argument in arguments):
        return 0 if name == "size" else False
    try:
        return FUNCTIONS[name](*arguments)
    except (TypeError, ValueError, AttributeError, OverflowError, re.error):
        return MISSING


def moment(name: str, now_ms: int, arguments: list[Any]) -> Any:
    """`now()`, `now_plus("1h")`, `now_minus("1h")`."""
    if name == "now":
        return from_ms(now_ms)
    shift = parse_duration(arguments[0]) if arguments and isinstance(arguments[0], str) else None
    if shift is None:
        return False if arguments and arguments[0] is MISSING else MISSING
    return from_ms(now_ms + (shift if name == "now_plus" else -shift))


def _size(value: Any) -> Any:
    return 0 if value is None else len(value)


def _date(value: Any) -> Any:
    ms = value if is_number(value) else parse_iso(value)
    return MISSING if ms is None else from_ms(int(ms))


def _duration(value: str) -> Any:
    ms = parse_duration(value)
    return MISSING if ms is None else timedelta(milliseconds=ms)


def _on_text(apply: Callable[[str, str], Any]) -> Callable[[Any, Any], Any]:
    def checked(text: Any, other: Any) -> Any:
        return apply(text, other) if isinstance(text, str) and isinstance(other, str) else MISSING

    return checked


def _json_parse(text: Any) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _b64decode(text: str) -> str:
    return base64.b64decode(text).decode("utf-8", "replace")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "contains": _on_text(lambda text, part: part in text),
    "startsWith": _on_text(lambda text, part: text.startswith(part)),
    "endsWith": _on_text(lambda text, part: text.endswith(part)),
    "matches": _on_text(lambda text, pattern: re.search(pattern, text) is not None),
    "lowercase": lambda text: text.lower(),
    "uppercase": lambda text: text.upper(),
    "b64decode": _b64decode,
    "json_parse": _json_parse,
    "date": _date,
    "timestamp": _date,
    "duration": _duration,
    "int": lambda value: int(value.timestamp()) if isinstance(value, datetime) else int(value),
    "uint": int,
    "double": float,
    "string": _text,
    "bool": lambda value: value if isinstance(value, bool) else {"true": True, "false": False}[value],
}
