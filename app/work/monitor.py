"""What is to be done about a tracked task, decided from its derived state alone."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.sentences import Sentence
from app.work.projection import Block, Derived, Truth
from app.work.supervision import Limits, Supervision


class Do(StrEnum):
    """The monitor's actions, in the order in which they are looked for."""

    STOP_AND_DELETE = "STOP_AND_DELETE"
    OWNER_RECONCILE = "OWNER_RECONCILE"
    TRUTH_INCONSISTENT = "TRUTH_INCONSISTENT"
    RETRY = "RETRY"
    BLOCKED_ESCALATE = "BLOCKED_ESCALATE"
    NUDGE_MAIN_AGENT = "NUDGE_MAIN_AGENT"
    STALE_PROGRESS = "STALE_PROGRESS"
    HEARTBEAT_DUE = "HEARTBEAT_DUE"
    OK = "OK"


STALE = Sentence("No progress since {since} UTC.")
LATE = Sentence("Step {step} was to get on by {at} UTC and did not.")
BLOCKED = Sentence("{what} is blocked: {reason}.")
BLOCKED_WITH = Sentence("{what} is blocked: {reason}. {summary}")
THE_TASK = Sentence("The task")

RETRY_FIRST = ("DOWNLOAD_TIMEOUT", "DOWNLOAD_INCOMPLETE", "TRANSIENT_NETWORK", "EXECUTION_ERROR", "EXTERNAL_WAIT")
"""Reasons of a block that are tried again before anybody is told."""

RETRY_DELAYS = (timedelta(), timedelta(minutes=5), timedelta(minutes=15))
"""How long before the first, the second and every later retry."""


@dataclass(frozen=True)
class Action:
    """One decision. It is carried out once `not_before` has come; `tells` means that a person is to hear of it.

    `subject` is the step or job that is to be tried again, or the step that does not get on ("": the task); `attempt`
    numbers a retry or a question, from 1.
    """

    kind: Do
    reason: str
    not_before: datetime | None = None
    subject: str = ""
    attempt: int = 0
    tells: bool = False

    def is_due(self, now: datetime) -> bool:
        return self.not_before is None or self.not_before <= now


def decide(derived: Derived, supervision: Supervision, now: datetime) -> Action:
    """Ended; not to be believed; blocked; idle for too long; only then OK. The first that fits decides."""
    for rule in _ORDER:
        action = rule(derived, supervision, now)
        if action is not None:
            return action
    return Action(Do.OK, "The task gets on." if derived.truth_state is Truth.RUNNING else "The wait is legitimate.")


def next_check(derived: Derived, supervision: Supervision, action: Action, now: datetime) -> datetime:
    """When the task is to be looked at again if nothing is observed of it until then."""
    if not action.is_due(now) and action.not_before is not None:
        return action.not_before
    limits = supervision.limits
    marks = [_since(derived, supervision) + span for span in _spans(derived, limits)]
    marks.append((derived.seen_at or supervision.created_at) + limits.heartbeat)
    marks += derived.idle_at.values()
    later = [mark for mark in marks if mark > now]
    return min(later, default=now + limits.nudge)


def _spans(derived: Derived, limits: Limits) -> tuple[timedelta, ...]:
    return (limits.external,) if _waits_outside(derived) else (limits.stale, limits.nudge)


def _ended(derived: Derived, _watch: Supervision, _now: datetime) -> Action | None:
    if not derived.is_terminal:
        return None
    return Action(Do.STOP_AND_DELETE, f"The task is {derived.truth_state}.")


def _doubtful(derived: Derived, watch: Supervision, _now: datetime) -> Action | None:
    if derived.truth_state is not Truth.INCONSISTENT:
        return None
    reason = " ".join(derived.inconsistencies)
    asked = 0 if _after(derived.replied_at, watch.asked_at) else watch.asks
    if watch.owner_key is None or asked >= watch.limits.asks:
        return Action(Do.TRUTH_INCONSISTENT, reason, _again(watch), tells=_untold(derived, watch))
    return Action(Do.OWNER_RECONCILE, reason, _again(watch) if asked else None, attempt=asked + 1)


def _blocked(derived: Derived, watch: Supervision, _now: datetime) -> Action | None:
    if not derived.blocks:
        return None
    hopeless = [block for block in derived.blocks if not _may_retry(block, watch)]
    block = hopeless[0] if hopeless else derived.blocks[0]
    form = BLOCKED_WITH if block.summary else BLOCKED
    reason = form.format(what=block.subject or THE_TASK, reason=block.reason, summary=block.summary)
    if hopeless:
        return Action(Do.BLOCKED_ESCALATE, reason, subject=block.subject, tells=_untold(derived, watch))
    used = watch.retries.get(block.subject, 0)
    since = max(block.at, watch.retried_at or block.at)
    due = since + RETRY_DELAYS[min(used, len(RETRY_DELAYS) - 1)]
    return Action(Do.RETRY, reason, due, subject=block.subject, attempt=used + 1)


def _may_retry(block: Block, watch: Supervision) -> bool:
    return block.reason in RETRY_FIRST and watch.retries.get(block.subject, 0) < watch.limits.retries


def _idle(derived: Derived, watch: Supervision, now: datetime) -> Action | None:
    step, at = min(derived.idle_at.items(), key=lambda one: one[::-1], default=("", now))
    if step and at <= now:
        return _nudge(derived, watch, LATE.format(step=step, at=f"{at:%Y-%m-%d %H:%M}"), step)
    limits, since = watch.limits, _since(derived, watch)
    waits = _waits_outside(derived)
    idle = now - since
    reason = STALE.format(since=f"{since:%Y-%m-%d %H:%M}")
    if idle >= (limits.external if waits else limits.nudge):
        return _nudge(derived, watch, reason)
    if idle >= limits.stale and not waits:
        return Action(Do.STALE_PROGRESS, reason)
    if now - (derived.seen_at or since) >= limits.heartbeat and not waits:
        return Action(Do.HEARTBEAT_DUE, f"No sign of life since {derived.seen_at or since:%Y-%m-%d %H:%M} UTC.")
    return None


def _nudge(derived: Derived, watch: Supervision, reason: str, step: str = "") -> Action:
    """Ask the owner, but not for ever: whom nobody answers to, or who only says that it works, is told of instead."""
    asked = 0 if _after(derived.progressed_at, watch.asked_at) else watch.asks
    if not watch.can_be_nudged or asked >= watch.limits.asks:
        return Action(Do.STALE_PROGRESS, reason, _again(watch), subject=step, tells=_untold(derived, watch))
    again = _again(watch) if asked else None
    return Action(Do.NUDGE_MAIN_AGENT, reason, again, subject=step, attempt=asked + 1)


def _since(derived: Derived, watch: Supervision) -> datetime:
    """Since when the task is idle: its last progress, or the last look at what it legitimately waits for."""
    outside = [pending.at for pending in derived.pending_external if not pending.is_suspicious]
    return max([derived.progressed_at or watch.created_at, *outside])


def _waits_outside(derived: Derived) -> bool:
    return derived.truth_state is Truth.WAITING_EXTERNAL


def _again(watch: Supervision) -> datetime | None:
    return None if watch.asked_at is None else watch.asked_at + watch.limits.nudge


def _untold(derived: Derived, watch: Supervision) -> bool:
    """A person is told once, and again only if the task got on, or its owner answered, since."""
    if watch.escalated_at is None:
        return True
    return _after(derived.progressed_at, watch.escalated_at) or _after(derived.replied_at, watch.escalated_at)


def _after(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and (other is None or one > other)


_ORDER: tuple[Callable[[Derived, Supervision, datetime], Action | None], ...] = (_ended, _doubtful, _blocked, _idle)
