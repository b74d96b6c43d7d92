"""Wakes: a row each. When one is due again is a pure decision, and every change of its state a compare-and-set."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from sqlalchemy import func, select, update

from app.db import Tx, insert_if_absent, moment
from app.errors import BadInput
from app.tables import wakes

MIN_AHEAD = timedelta(minutes=1)
MIN_BETWEEN = timedelta(minutes=5)
MAX_AHEAD = timedelta(days=366)
LOOKED_AT = 60
"""How many instants of a schedule are looked at for two that are too near each other."""

CRON_FORM = "minute hour day month weekday, such as 0 9 * * 1-5, with weekdays from 0 (Sunday) to 6"


class WakeState(StrEnum):
    """A wake is open until it has fired for the last time or was cancelled."""

    OPEN = "open"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Wake:
    """One wake. `cron` (in `zone`) is there only if it repeats; `rings` tells its user also at night; `chain` counts
    the wakes before it that were each set by the turn of the last one. `fired` is how often it did.
    """

    id: str
    session_id: str
    session_key: str
    run_id: str
    step_key: str
    reason: str
    zone: str
    due_at: datetime
    channel: str
    destination: dict[str, Any]
    created_at: datetime
    cron: str | None = None
    rings: bool = False
    chain: int = 0
    state: str = WakeState.OPEN
    fired: int = 0
    fired_at: datetime | None = None
    signalled: bool = False
    ended_at: datetime | None = None

    @classmethod
    def of(cls, row: Any) -> "Wake":
        times = ("due_at", "created_at", "fired_at", "ended_at")
        return cls(**{f.name: getattr(row, f.name) for f in fields(cls)} | {n: moment(getattr(row, n)) for n in times})


def next_instant(cron: str, zone: str, after: datetime) -> datetime | None:
    """The first instant of a schedule after `after`, in UTC; None if there is none.

    An hour that the clocks leave out is made up for at its end, one that they repeat counts once.
    """
    found: datetime | None = next(CronSim(cron.replace("?", "*"), after.astimezone(ZoneInfo(zone))), None)
    return found.astimezone(UTC) if found is not None else None


def first_instant(cron: str, zone: str, now: datetime) -> datetime:
    """When a schedule that somebody asks for begins. Raises BadInput with what is wrong and the accepted form."""
    checked_zone(zone)
    parts = cron.split()
    try:
        if len(parts) != 5 or "7" in parts[4]:
            raise CronSimError("five fields are needed, weekdays from 0 to 6")
        instants = [now]
        while len(instants) < LOOKED_AT and (following := next_instant(cron, zone, instants[-1])) is not None:
            instants.append(following)
    except CronSimError as error:
        raise BadInput(f"cron={cron!r} is not a schedule ({error}); accepted: {CRON_FORM}.") from error
    if len(instants) < 2 or instants[1] > now + MAX_AHEAD:
        raise BadInput(f"cron={cron!r} has no time within a year.")
    if any(later - earlier < MIN_BETWEEN for earlier, later in pairwise(instants[1:])):
        raise BadInput(f"cron={cron!r} is too often: at least {MIN_BETWEEN.seconds // 60} minutes between two wakes.")
    return instants[1]


def checked_zone(zone: str) -> ZoneInfo:
    """The time zone of this name. Raises BadInput."""
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInput(f"zone={zone!r} is not a time zone; accepted: a name such as Europe/Paris.") from error


def add(tx: Tx, wake: Wake) -> None:
    """Write a wake down, once for its run and step."""
    insert_if_absent(tx, wakes, asdict(wake))


def find(tx: Tx, wake_id: str) -> Wake | None:
    return _first(tx, wakes.c.id == wake_id)


def of_step(tx: Tx, run_id: str, step_key: str) -> Wake | None:
    """The wake that this call set, or None."""
    return _first(tx, wakes.c.run_id == run_id, wakes.c.step_key == step_key)


def open_of_key(tx: Tx, session_key: str) -> list[Wake]:
    """Open wakes of a conversation's key, the next one first."""
    return _all(tx, wakes.c.session_key == session_key, wakes.c.state == WakeState.OPEN)


def all_open(tx: Tx) -> list[Wake]:
    """Open wakes of everybody, the next one first."""
    return _all(tx, wakes.c.state == WakeState.OPEN)


def count_set_by(tx: Tx, run_id: str) -> int:
    """How many wakes a turn has set that are still open."""
    query = select(func.count()).select_from(wakes).where(wakes.c.run_id == run_id, wakes.c.state == WakeState.OPEN)
    return tx.scalar(query) or 0


def due(tx: Tx, now: datetime) -> list[Wake]:
    """Open wakes whose time has come, in the order of their times."""
    return _all(tx, wakes.c.state == WakeState.OPEN, wakes.c.due_at <= now)


def unsignalled(tx: Tx, until: datetime) -> list[Wake]:
    """Open wakes due by `until` of which no engine is known to have been told."""
    return _all(tx, wakes.c.state == WakeState.OPEN, wakes.c.due_at <= until, wakes.c.signalled.is_(False))


def mark_signalled(tx: Tx, told: Sequence[Wake]) -> None:
    """Note that the engine took the signals of these wakes; one that has fired meanwhile needs another."""
    for wake in told:
        same = wakes.c.id == wake.id, wakes.c.fired == wake.fired
        tx.execute(update(wakes).where(*same).values(signalled=True))


def fire(tx: Tx, wake: Wake, now: datetime) -> Wake | None:
    """Note one firing: the wake as it is after it, None if somebody was faster.

    One that repeats is set to its next instant from now on: what fell into a time of absence is left out.
    """
    following = next_instant(wake.cron, wake.zone, now) if wake.cron else None
    changes: dict[str, Any] = {"fired": wake.fired + 1, "fired_at": now, "signalled": False}
    if following is None:
        changes |= {"state": WakeState.DONE, "ended_at": now}
    else:
        changes |= {"due_at": following}
    unchanged = wakes.c.id == wake.id, wakes.c.state == WakeState.OPEN, wakes.c.fired == wake.fired
    return replace(wake, **changes) if tx.execute(update(wakes).where(*unchanged).values(changes)).rowcount else None


def cancel(tx: Tx, wake_id: str, now: datetime) -> bool:
    """End an open wake; False if it was none."""
    query = update(wakes).where(wakes.c.id == wake_id, wakes.c.state == WakeState.OPEN)
    return bool(tx.execute(query.values(state=WakeState.CANCELLED, ended_at=now)).rowcount)


def _first(tx: Tx, *conditions: Any) -> Wake | None:
    row = tx.execute(select(wakes).where(*conditions)).first()
    return None if row is None else Wake.of(row)


def _all(tx: Tx, *conditions: Any) -> list[Wake]:
    return [Wake.of(row) for row in tx.execute(select(wakes).where(*conditions).order_by(wakes.c.due_at, wakes.c.id))]
