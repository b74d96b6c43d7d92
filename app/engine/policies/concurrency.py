"""Concurrency: how many steps of a key may be in execution; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.errors import BadFunction
from app.engine.expressions import Expression
from app.engine.model import to_json
from app.engine.policies.keys import parse_key

_SCOPES = ("fn", "env", "account")


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most `limit` calls at once per key, in the function or (`env`, `account`) in the whole engine.

    Sleeping and waiting runs are in no call and take no slot.
    """

    limit: int
    scope: str
    expression: Expression | None

    @classmethod
    def parse(cls, config: Any) -> "tuple[Concurrency, ...]":
        """A number, one limit or a list of them; a limit of 0 is none (as Inngest has it)."""
        items = config if isinstance(config, list) else [config]
        return tuple(found for found in map(cls._parse_one, items) if found is not None)

    @classmethod
    def _parse_one(cls, item: Any) -> "Concurrency | None":
        config: Mapping[str, Any] = {"limit": item} if isinstance(item, int) else item
        limit, scope = config.get("limit"), str(config.get("scope") or "fn").lower()
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise BadFunction(f"concurrency.limit must be a whole number, not {limit!r}.")
        if scope not in _SCOPES:
            raise BadFunction(f"concurrency.scope must be one of {', '.join(_SCOPES)}, not {scope!r}.")
        return cls(limit, scope, parse_key(config)) if limit else None

    def key(self, function: str, event: Mapping[str, Any], now_ms: int) -> str:
        """What shares the slots: the same key in the same scope, of whatever function when the scope is wider."""
        owner = function if self.scope == "fn" else ""
        source = self.expression.source if self.expression and self.scope == "fn" else ""
        value = self.expression.evaluate({"event": event}, now_ms) if self.expression else None
        return to_json([self.scope, owner, source, value])

    def has_room(self, used: int) -> bool:
        """Whether one more call may begin beside `used` others."""
        return used < self.limit
