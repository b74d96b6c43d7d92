"""A service's database of sessions and messages, asked from outside beside the process or after its death.

A file of SQLite in its home; with TEST_POSTGRES_URL (a database whose owner may make others) a PostgreSQL of its own.
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

Row = dict[str, Any]


class AppDatabase(Protocol):
    """`settings` tell the service where it is; statements have question marks for their values."""

    settings: dict[str, str]

    def rows(self, sql: str, values: Sequence[Any]) -> list[Row]: ...

    def change(self, sql: str, values: Sequence[Any]) -> int:
        """How many rows were changed."""
        ...


def app_database(home: Path) -> AppDatabase:
    url = os.environ.get("TEST_POSTGRES_URL", "")
    return PostgresDatabase(url) if url else SqliteDatabase(home / "moab.db")


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        self.settings: dict[str, str] = {}
        self._path = path

    def rows(self, sql: str, values: Sequence[Any]) -> list[Row]:
        with contextlib.closing(sqlite3.connect(self._path, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]

    def change(self, sql: str, values: Sequence[Any]) -> int:
        with contextlib.closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            return connection.execute(sql, [_as_sqlite(value) for value in values]).rowcount


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        made = make_url(url).set(database=f"moab_{uuid4().hex}")
        self._url = made.render_as_string(hide_password=False)
        self.settings = {"DATABASE_URL": self._url}
        asyncio.run(_ask(url, f"CREATE DATABASE {made.database}", ()))

    def rows(self, sql: str, values: Sequence[Any]) -> list[Row]:
        found = asyncio.run(_ask(self._url, sql, values))
        return [{name: _as_sqlite(value) for name, value in row.items()} for row in found]

    def change(self, sql: str, values: Sequence[Any]) -> int:
        return len(asyncio.run(_ask(self._url, f"{sql} RETURNING 1", values)))


async def _ask(url: str, sql: str, values: Sequence[Any]) -> list[Row]:
    driver = make_url(url).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(driver, isolation_level="AUTOCOMMIT")
    try:
        async with engine.connect() as connection:
            answer = await connection.exec_driver_sql(_numbered(sql), tuple(values))
            return [dict(row) for row in answer.mappings()] if answer.returns_rows else []
    finally:
        await engine.dispose()


def _numbered(sql: str) -> str:
    """PostgreSQL's marks for the values: $1, $2 and so on."""
    numbers = itertools.count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", sql)


def _as_sqlite(value: Any) -> Any:
    """Moments and JSON as SQLAlchemy keeps them in SQLite."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return json.dumps(value) if isinstance(value, (dict, list)) else value
