"""The door to the app database: one writing connection on SQLite, plain transactions everywhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import event, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.errors import ConfigError

Tx = AsyncConnection
"""A connection inside a transaction; functions that take one never commit."""

BUSY_TIMEOUT_MS = 30_000


class Database:
    """Opens transactions. On SQLite all writers share one connection, so that the file never has two."""

    def __init__(self, url: str) -> None:
        """`url` is an SQLAlchemy URL with an async driver (sqlite+aiosqlite or postgresql+asyncpg)."""
        try:
            parsed = make_url(url)
            if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
                raise ConfigError("DATABASE_URL: accepted are sqlite:///path/to/file and postgresql://user@host/name.")
            self.is_sqlite = parsed.get_backend_name() == "sqlite"
            self.url = url
            self._writer = self._engine(url, 1)
            self._reader = self._engine(url, 4) if self.is_sqlite else self._writer
        except ModuleNotFoundError as error:
            raise ConfigError(f"DATABASE_URL: the driver {error.name} is not installed.") from error

    def _engine(self, url: str, size: int) -> AsyncEngine:
        if not self.is_sqlite:
            return create_async_engine(url, pool_size=8, pool_pre_ping=True)
        Path(make_url(url).database or "").parent.mkdir(parents=True, exist_ok=True)
        engine = create_async_engine(url, pool_size=size, max_overflow=0, pool_timeout=60)
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_writing if size == 1 else _begin_reading)
        return engine

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        """A transaction that may write; commits at the end of the block, rolls back on an error."""
        async with self._writer.begin() as tx:
            yield tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        """A consistent view for reading."""
        async with self._reader.begin() as tx:
            yield tx

    async def close(self) -> None:
        await self._writer.dispose()
        await self._reader.dispose()


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves; the driver's own would come too late
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_TIMEOUT_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_writing(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_reading(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN")


def moment(value: datetime | None) -> datetime | None:
    """A stored time as aware UTC (SQLite forgets the zone)."""
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value
