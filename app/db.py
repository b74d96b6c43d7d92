"""The door to the app database: a transaction is one plain function, run as a whole on a thread of its own."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import URL, Connection, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from app.errors import ConfigError

Tx = Connection
"""A connection inside a transaction. Functions that take one only talk to the database, and never commit."""

log = logging.getLogger("moab.db")

BUSY_TIMEOUT_MS = 30_000
UNREADABLE = "unreadable"
ACCEPTED = "DATABASE_URL: accepted are sqlite:///path/to/file and postgresql://user:password@host/name."

P = ParamSpec("P")
T = TypeVar("T")


class _Lane:
    """One SQLite connection on one thread; transactions follow one another."""

    def __init__(self, path: str, begin: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moab-db")
        self._engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, json_deserializer=_read_json)
        event.listen(self._engine, "connect", _prepare_sqlite)
        event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        self._connection: Connection | None = None

    async def run(self, work: Callable[[Tx], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work)

    def _transact(self, work: Callable[[Tx], T]) -> T:
        if self._connection is None:
            self._connection = self._engine.connect()
        with self._connection.begin():
            return work(self._connection)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._engine.dispose()

    async def scrub(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._scrub)

    def _scrub(self) -> None:
        if self._connection is None:
            self._connection = self._engine.connect()
        cursor = self._connection.connection.cursor()  # the driver's own: in a transaction neither can be done
        for statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            cursor.execute(statement)
            cursor.fetchall()
        cursor.close()

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)


class _Pool:
    """PostgreSQL's side of the door: the same plain functions, on SQLAlchemy's asyncio engine."""

    def __init__(self, url: URL) -> None:
        self._engine = create_async_engine(url.set(drivername="postgresql+asyncpg"), pool_size=8, pool_pre_ping=True)

    async def run(self, work: Callable[[Tx], T]) -> T:
        async with self._engine.begin() as connection:
            return await connection.run_sync(work)

    async def close(self) -> None:
        await self._engine.dispose()


class Database:
    """Runs transactions. On SQLite all writers share one connection, so that the file never has two."""

    def __init__(self, url: str) -> None:
        """`url` is sqlite:///path or postgresql://user@host/name. Raises ConfigError for anything else."""
        try:
            parsed = make_url(url)
        except ArgumentError:  # not chained: it may show the password
            raise ConfigError(ACCEPTED) from None
        self._writing: _Lane | _Pool
        self._reading: _Lane | _Pool
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
            self._writing = _Lane(parsed.database, "BEGIN IMMEDIATE")
            self._reading = _Lane(parsed.database, "BEGIN")
        elif parsed.get_backend_name() == "postgresql":
            self._writing = self._reading = _postgres(parsed)
        else:
            raise ConfigError(ACCEPTED)

    async def write(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **options: P.kwargs) -> T:
        """`work(tx, *args, **options)` in a transaction that may write: committed when it returns, else rolled back.

        Once begun it is carried through, also if the caller is cancelled meanwhile.
        """
        return await self._writing.run(partial(_call, work, args, options))

    async def read(self, work: Callable[Concatenate[Tx, P], T], *args: P.args, **options: P.kwargs) -> T:
        """`work(tx, *args, **options)` on a consistent view."""
        return await self._reading.run(partial(_call, work, args, options))

    async def scrub(self) -> None:
        """Write the file anew, so that nothing of what was deleted is left in it; PostgreSQL does so by itself."""
        if isinstance(self._writing, _Lane):
            await self._writing.scrub()

    async def close(self) -> None:
        await self._writing.close()
        if self._reading is not self._writing:
            await self._reading.close()


def _call(work: Callable[..., T], args: Any, options: Any, tx: Tx) -> T:
    return work(tx, *args, **options)


def _postgres(url: URL) -> _Pool:
    try:
        return _Pool(url)
    except ModuleNotFoundError as error:
        raise ConfigError(f"DATABASE_URL: the driver {error.name} is not installed.") from error


def _read_json(text: str) -> Any:
    """A JSON column. One that was damaged takes no other record with it: it counts as empty, and keeps what it was."""
    try:
        return json.loads(text)
    except ValueError:
        log.error("A record cannot be read and counts as empty; it is left as it is: %.200s", text)
        return {UNREADABLE: text}


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; the driver's own would come too late
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_TIMEOUT_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def insert_if_absent(tx: Tx, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert `row`; False when a unique key of it is there already (also when another process was faster)."""
    insert = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).values(dict(row)).on_conflict_do_nothing()
    return tx.execute(statement).rowcount > 0


def moment(value: datetime | None) -> datetime | None:
    """A stored time as aware UTC (SQLite forgets the zone)."""
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value
