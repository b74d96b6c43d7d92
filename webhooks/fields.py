"""Fields of JSON that others send: each as the type one asks for, or as nothing. Pure."""

from collections.abc import Mapping
from typing import Any


def as_dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_id(value: Any) -> str | None:
    """An id as text; `wire_safe` has made text of the very large ones."""
    return str(value) if as_int(value) is not None or (isinstance(value, str) and value) else None
