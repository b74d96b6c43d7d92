"""A registered function: its configuration, parsed once and checked."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.engine.clock import parse_duration
from app.engine.cron import Cron
from app.engine.errors import BadFunction
from app.engine.expressions import Expression
from app.engine.ids import function_uuid
from app.engine.policies.singleton import Singleton
from app.engine.retry import DEFAULT_RETRIES

log = logging.getLogger("moab.engine")

#: Policies that the protocol knows and this engine does not apply yet.
LATER_POLICIES = (
    "concurrency", "throttle", "rateLimit", "debounce", "batchEvents", "priority", "idempotency", "timeouts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """Starts the function for events of this name (`*` after a `/` or `.` at the end is a wildcard)."""

    pattern: str
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class CancelOn:
    """Cancels open runs of the function: `condition` sees the run's `event` and the new one as `async`."""

    event: str
    condition: Expression | None
    within_ms: int | None


@dataclass(frozen=True, slots=True)
class Function:
    """One function as registered."""

    slug: str
    name: str
    app: str
    uuid: str
    retries: int
    triggers: tuple[EventTrigger, ...] = ()
    crons: tuple[Cron, ...] = ()
    cancels: tuple[CancelOn, ...] = ()
    singleton: Singleton | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def max_attempts(self) -> int:
        return self.retries + 1


def parse_function(app: str, config: Mapping[str, Any]) -> Function:
    """Read one entry of `functions[]` of a registration; raises BadFunction, BadExpression or BadCron."""
    try:
        slug = str(config["id"])
        step = config["steps"]["step"]
        retries = int((step.get("retries") or {}).get("attempts", DEFAULT_RETRIES))
        triggers = list(config["triggers"])
        cancels = config.get("cancel") or []
        singleton = config.get("singleton")
        function = Function(
            slug=slug,
            name=str(config.get("name") or slug),
            app=app,
            uuid=function_uuid(app, slug),
            retries=retries,
            triggers=tuple(
                EventTrigger(str(trigger["event"]), _condition(trigger.get("expression")))
                for trigger in triggers
                if trigger.get("event")
            ),
            crons=tuple(Cron.parse(str(trigger["cron"])) for trigger in triggers if trigger.get("cron")),
            cancels=tuple(_cancel(cancel) for cancel in cancels),
            singleton=Singleton.parse(singleton) if singleton else None,
            raw=config,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadFunction(f"A function of app '{app}' has a configuration that cannot be read: {error!r}.") from None
    _warn_about_later_policies(function)
    return function


def _condition(source: Any) -> Expression | None:
    return Expression.compile(str(source)) if source else None


def _cancel(cancel: Mapping[str, Any]) -> CancelOn:
    timeout = cancel.get("timeout")
    return CancelOn(str(cancel["event"]), _condition(cancel.get("if")), parse_duration(timeout) if timeout else None)


def _warn_about_later_policies(function: Function) -> None:
    asked = [policy for policy in LATER_POLICIES if function.raw.get(policy)]
    if asked:
        log.warning(
            "Function %s asks for %s, which this engine does not apply yet; it runs without.",
            function.slug,
            ", ".join(asked),
        )


def config_text(function: Function) -> str:
    """The registration as stored."""
    return json.dumps(function.raw, separators=(",", ":"), sort_keys=True)
