"""The door to the app database: plain transactions; on SQLite one writing connection, on a thread of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import URL, Connection, ScalarResult, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Result
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from app.errors import ConfigError

BUSY_TIMEOUT_MS = 30_000

T = TypeVar("T")


class Tx(Protocol):
    """A connection inside a transaction; functions that take one never commit. Results are fully read."""

    async def execute(self, statement: Any, parameters: Any = None) -> Any: ...
    async def scalar(self, statement: Any) -> Any: ...
    async def scalars(self, statement: Any) -> ScalarResult[Any]: ...
    async def run_sync(self, work: Callable[[Any], T]) -> T: ...


class _Lane:
    """One SQLite connection on one thread: a statement costs one hop to it, transactions follow one another."""

    def __init__(self, path: str, begin: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moab-db")
        self._engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
        event.listen(self._engine, "connect", _prepare_sqlite)
        event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        async with self._turn:
            # What the thread has begun it ends before anything after it, so a cancelled wait needs no more care
            # than the rollback below, which queues behind it.
            try:
                await self.run(self._begin)
                yield _LaneTx(self)
            except BaseException:
                await asyncio.shield(self.run(self._rollback))
                raise
            await asyncio.shield(self.run(self._commit))

    def execute(self, statement: Any, parameters: Any) -> Any:
        assert self._connection is not None  # noqa: S101 - inside a transaction there is one
        result = self._connection.execute(statement, parameters)
        return result.freeze()() if result.returns_rows else result

    def work(self, work: Callable[[Any], T]) -> T:
        assert self._connection is not None  # noqa: S101 - inside a transaction there is one
        return work(self._connection)

    def _begin(self) -> None:
        if self._connection is None:
            self._connection = self._engine.connect()
        self._connection.begin()

    def _commit(self) -> None:
        assert self._connection is not None  # noqa: S101 - inside a transaction there is one
        try:
            self._connection.commit()
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        if self._connection is not None and self._connection.in_transaction():
            self._connection.rollback()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._engine.dispose()

    async def close(self) -> None:
        async with self._turn:
            await self.run(self._close)
        self._thread.shutdown(wait=False)


class _LaneTx:
    """A transaction on a lane. Implements `Tx`."""

    def __init__(self, lane: _Lane) -> None:
        self._lane = lane

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        return await self._lane.run(self._lane.execute, statement, parameters)

    async def scalar(self, statement: Any) -> Any:
        return (await self.execute(statement)).scalar()

    async def scalars(self, statement: Any) -> ScalarResult[Any]:
        result: Result[Any] = await self.execute(statement)
        return result.scalars()

    async def run_sync(self, work: Callable[[Any], T]) -> T:
        return await self._lane.run(self._lane.work, work)


class _Pool:
    """PostgreSQL's side of the door."""

    def __init__(self, url: str) -> None:
        self._engine = create_async_engine(url, pool_size=8, pool_pre_ping=True)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        async with self._engine.begin() as tx:
            yield tx

    async def close(self) -> None:
        await self._engine.dispose()


class Database:
    """Opens transactions. On SQLite all writers share one connection, so that the file never has two."""

    def __init__(self, url: str) -> None:
        """`url` is sqlite:///path or postgresql://user@host/name. Raises ConfigError for anything else."""
        try:
            parsed = make_url(url)
            self.is_sqlite = parsed.get_backend_name() == "sqlite"
            if self.is_sqlite and parsed.database:
                Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
                self._writing: _Lane | _Pool = _Lane(parsed.database, "BEGIN IMMEDIATE")
                self._reading: _Lane | _Pool = _Lane(parsed.database, "BEGIN")
            elif parsed.get_backend_name() == "postgresql":
                self._writing = self._reading = _Pool(
                    parsed.set(drivername="postgresql+asyncpg").render_as_string(False)
                )
            else:
                raise ConfigError("DATABASE_URL: accepted are sqlite:///path/to/file and postgresql://user@host/name.")
        except ModuleNotFoundError as error:
            raise ConfigError(f"DATABASE_URL: the driver {error.name} is not installed.") from error

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        """A transaction that may write; commits at the end of the block, rolls back on an error."""
        async with self._writing.transaction() as tx:
            yield tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        """A consistent view for reading."""
        async with self._reading.transaction() as tx:
            yield tx

    async def close(self) -> None:
        await self._writing.close()
        if self._reading is not self._writing:
            await self._reading.close()


def _asyncpg(url: URL) -> str:
    return url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; the driver's own would come too late
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_TIMEOUT_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


async def insert_if_absent(tx: Tx, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert `row`; False when a unique key of it is there already (also when another process was faster)."""
    name = await tx.run_sync(lambda connection: connection.dialect.name)
    insert = postgresql.insert if name == "postgresql" else sqlite.insert
    statement = insert(table).values(dict(row)).on_conflict_do_nothing()
    return bool((await tx.execute(statement)).rowcount)


def moment(value: datetime | None) -> datetime | None:
    """A stored time as aware UTC (SQLite forgets the zone)."""
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value
