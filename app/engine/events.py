"""Events at the door: what the wire may carry, checked before anything is stored."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.engine.errors import BadEvent
from app.engine.ids import Ulids
from app.engine.model import Event

#: Inngest's limit on its free plan.
MAX_EVENT_BYTES = 262_144
MAX_NAME_LETTERS = 256
#: Ids and names are also keys of the store, which keeps them as UTF-8.
_PASSED_ON = ("v",)


def parse_body(raw: bytes) -> list[Mapping[str, Any]]:
    """The events of a request body: one object or a list of them; raises BadEvent."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    events = body if isinstance(body, list) else [body]
    if not all(isinstance(event, dict) for event in events):
        raise BadEvent("Request body must contain an event object or an array of event objects")
    return events


def accept(
    events: Sequence[Mapping[str, Any]], ulids: Ulids, now_ms: int, max_bytes: int = MAX_EVENT_BYTES
) -> list[Event]:
    """Check wire-format events and give each its id; all or none: raises BadEvent at the first bad one."""
    return [_accept(event, ulids, now_ms, max_bytes) for event in events]


def _accept(event: Mapping[str, Any], ulids: Ulids, now_ms: int, max_bytes: int) -> Event:
    name = event.get("name")
    if not name:
        raise BadEvent("event name is empty")
    _check_text("name", name)
    if len(name) > MAX_NAME_LETTERS:
        raise BadEvent(f"event name has {len(name)} letters; at most {MAX_NAME_LETTERS} are accepted")
    if name.startswith("inngest/"):
        raise BadEvent(f"event name '{name}' begins with 'inngest/', which only the engine itself sends")
    internal_id = ulids.new()
    data = _mapping("data", event.get("data"))
    data.pop("_inngest", None)  # the engine's own: passed on, it would pose as an invocation's
    body = {
        "data": data,
        "id": _check_text("id", event.get("id") or internal_id),
        "name": name,
        "ts": _moment(event.get("ts"), now_ms),
        "user": _mapping("user", event.get("user")),
        **{key: event[key] for key in _PASSED_ON if event.get(key) is not None},
    }
    try:
        accepted = Event(internal_id, body, now_ms)
        size = len(accepted.raw)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadEvent(f"event '{name}' is not JSON: {error}") from None
    if size > max_bytes:
        raise BadEvent(f"event '{name}' has {size} bytes; at most {max_bytes} are accepted")
    if b"NaN" in accepted.raw or b"Infinity" in accepted.raw:
        _refuse_special_numbers(name, body)
    return accepted


def has_own_id(event: Mapping[str, Any]) -> bool:
    """Whether the sender gave the event an id, which then counts once in 24 hours."""
    return bool(event.get("id"))


def _check_text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadEvent(f"event {field} must be a text, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadEvent(f"event {field} has a lone surrogate, which is no text") from None
    return value


def _mapping(field: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadEvent(f"event {field} must be an object, not {_kind(value)}")
    return dict(value)


def _moment(value: object, now_ms: int) -> int:
    if value is None or value == 0:
        return now_ms
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**15:
        raise BadEvent(f"event ts must be whole milliseconds since 1970, not {_kind(value)} {value!r}")
    return value


def _kind(value: object) -> str:
    return {list: "an array", dict: "an object", str: "a text", bool: "a truth value"}.get(type(value), "a number")


def _refuse_special_numbers(name: str, value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise BadEvent(f"event '{name}' holds {value}, which is no JSON number")
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in inner:
        _refuse_special_numbers(name, item)
