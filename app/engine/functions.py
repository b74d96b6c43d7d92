"""A registered function: its configuration, parsed once and checked."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.engine.cron import Cron
from app.engine.errors import BadCron, BadExpression, BadFunction
from app.engine.expressions import Expression
from app.engine.ids import function_uuid
from app.engine.policies.batch import Batch
from app.engine.policies.concurrency import Concurrency
from app.engine.policies.debounce import Debounce
from app.engine.policies.durations import duration_ms
from app.engine.policies.priority import Priority
from app.engine.policies.rate_limit import RateLimit
from app.engine.policies.singleton import Singleton
from app.engine.policies.throttle import Throttle
from app.engine.policies.timeouts import Timeouts
from app.engine.retry import DEFAULT_RETRIES

_Policy = TypeVar("_Policy")


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
class CronTrigger:
    """Starts the function at the instants of a schedule, up to `jitter_ms` late."""

    schedule: Cron
    jitter_ms: int = 0


@dataclass(frozen=True, slots=True)
class Policies:
    """How starts and calls of a function are held back; each is None or empty when it was not asked for."""

    singleton: Singleton | None = None
    idempotency: RateLimit | None = None
    rate_limit: RateLimit | None = None
    batch: Batch | None = None
    debounce: Debounce | None = None
    throttle: Throttle | None = None
    priority: Priority | None = None
    concurrency: tuple[Concurrency, ...] = ()
    timeouts: Timeouts | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """One function as registered."""

    slug: str
    name: str
    app: str
    uuid: str
    retries: int
    triggers: tuple[EventTrigger, ...] = ()
    crons: tuple[CronTrigger, ...] = ()
    cancels: tuple[CancelOn, ...] = ()
    policies: Policies = field(default_factory=Policies)
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
        return Function(
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
            crons=tuple(_cron(trigger) for trigger in triggers if trigger.get("cron")),
            cancels=tuple(_cancel(cancel) for cancel in config.get("cancel") or []),
            policies=_policies(config),
            raw=config,
        )
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BadFunction(f"A function of app '{app}' has a configuration that cannot be read: {error!r}.") from None
    except (BadFunction, BadExpression, BadCron) as error:
        raise type(error)(f"Function '{config.get('id')}' of app '{app}': {error}") from None


def _policies(config: Mapping[str, Any]) -> Policies:
    def parsed(name: str, parse: Callable[[Any], _Policy]) -> _Policy | None:
        return parse(config[name]) if config.get(name) else None

    policies = Policies(
        singleton=parsed("singleton", Singleton.parse),
        idempotency=parsed("idempotency", lambda source: RateLimit.idempotency(str(source))),
        rate_limit=parsed("rateLimit", RateLimit.parse),
        batch=parsed("batchEvents", Batch.parse),
        debounce=parsed("debounce", Debounce.parse),
        throttle=parsed("throttle", Throttle.parse),
        priority=parsed("priority", Priority.parse),
        concurrency=parsed("concurrency", Concurrency.parse) or (),
        timeouts=parsed("timeouts", Timeouts.parse),
    )
    if policies.batch and policies.debounce:
        raise BadFunction("batchEvents and debounce exclude each other.")
    return policies


def _cron(trigger: Mapping[str, Any]) -> CronTrigger:
    jitter_ms = duration_ms("cron", trigger, "jitter", required=False) or 0
    return CronTrigger(Cron.parse(str(trigger["cron"])), jitter_ms)


def _condition(source: Any) -> Expression | None:
    return Expression.compile(str(source)) if source else None


def _cancel(cancel: Mapping[str, Any]) -> CancelOn:
    within_ms = duration_ms("cancel", cancel, "timeout", required=False)
    return CancelOn(str(cancel["event"]), _condition(cancel.get("if")), within_ms)


def config_text(function: Function) -> str:
    """The registration as stored."""
    return json.dumps(function.raw, separators=(",", ":"), sort_keys=True)
