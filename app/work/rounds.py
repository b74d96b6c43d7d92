"""Rounds: what the heartbeat does only now and then. A row says when each was done last and when it is due again."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select, update

from app.db import Tx, insert_if_absent, moment
from app.tables import rounds


@dataclass(frozen=True)
class Round:
    """One kind of round. `quiet` and `failures` count how often in a row nothing came of it, or it failed; `next_at`
    None: not before something else happens.
    """

    name: str
    last_at: datetime
    next_at: datetime | None
    quiet: int = 0
    failures: int = 0
    note: str | None = None

    @classmethod
    def of(cls, row: Any) -> "Round":
        values = {field.name: getattr(row, field.name) for field in fields(cls)}
        return cls(**values | {name: moment(values[name]) for name in ("last_at", "next_at")})

    def is_due(self, now: datetime) -> bool:
        return self.next_at is not None and self.next_at <= now


OF_NAME = select(rounds).where(rounds.c.name == bindparam("of"))


def find(tx: Tx, name: str) -> Round | None:
    row = tx.execute(OF_NAME, {"of": name}).first()
    return None if row is None else Round.of(row)


EVERYTHING = select(rounds)


def everything(tx: Tx) -> dict[str, Round]:
    """All rounds that ever were, by their names."""
    return {row.name: Round.of(row) for row in tx.execute(EVERYTHING)}


def is_due(tx: Tx, name: str, now: datetime) -> bool:
    """Whether `take` may succeed: a look is much cheaper than the attempt."""
    found = find(tx, name)
    return found is None or found.is_due(now)


def plan(tx: Tx, name: str, now: datetime, next_at: datetime) -> None:
    """Say when a round that never was is due for the first time; any other stays as it is."""
    if find(tx, name) is None:
        insert_if_absent(tx, rounds, {"name": name, "last_at": now, "next_at": next_at})


def take(tx: Tx, name: str, now: datetime, next_at: datetime) -> bool:
    """Take a round up that is due, or was never done; False if it is not, or somebody was faster.

    It is due again at `next_at`, should nobody come to say how it went.
    """
    if not is_due(tx, name, now):
        return False
    fresh = {"name": name, "last_at": now, "next_at": next_at}
    if insert_if_absent(tx, rounds, fresh):
        return True
    still = rounds.c.name == name, rounds.c.next_at <= now
    return bool(tx.execute(update(rounds).where(*still).values(fresh)).rowcount)


def note(tx: Tx, name: str, now: datetime, next_at: datetime | None, **changes: Any) -> None:
    """Note that a round was done, and when it is due again; `changes` are of quiet, failures and note."""
    values = {"last_at": now, "next_at": next_at} | changes
    if not tx.execute(NOTE, {"of": name} | values).rowcount:
        insert_if_absent(tx, rounds, {"name": name} | values)


NOTE = update(rounds).where(rounds.c.name == bindparam("of"))
