"""The door to the database, and that the migrations lead to the schema that the code knows."""

import asyncio
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import IntegrityError

from app import goal_tables  # noqa: F401 - adds its tables to the metadata
from app.db import Database, Tx, insert_if_absent, moment
from app.errors import ConfigError
from app.migrate import migrate, run
from app.tables import is_described, metadata, sessions
from tests.unit.house import House, in_thread


def session_row(number: int = 1, key: str = "k") -> dict[str, Any]:
    moment_of_test = sa.func.current_timestamp()
    return {"id": f"S{number}", "key": key, "created_at": moment_of_test}


def add(tx: Tx, number: int = 1, key: str = "k") -> None:
    tx.execute(sa.insert(sessions).values(session_row(number, key)))


def count(tx: Tx) -> int:
    return int(tx.scalar(sa.select(sa.func.count()).select_from(sessions)) or 0)


def test_the_migrations_lead_to_the_schema_of_the_code(template: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{template}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "include_name": is_described})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_columns_and_indexes_are_those_that_the_code_would_make_itself(template: Path, tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'made.db'}")
    metadata.create_all(engine)
    engine.dispose()
    assert columns(template) == columns(tmp_path / "made.db")
    assert indexes(template) == indexes(tmp_path / "made.db")


def columns(path: Path) -> dict[str, list[Any]]:
    """Name, type, not null, default and place in the key of each column, by table."""
    connection = sqlite3.connect(path)
    found = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in metadata.tables}
    connection.close()
    return {name: [row[1:] for row in rows] for name, rows in found.items()}


def indexes(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(path)
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"))
    connection.close()
    return {name: " ".join(sql.split()) for name, sql in found.items()}


def test_the_partial_indexes_are_there(template: Path) -> None:
    found = indexes(template)
    assert found["sessions_open_key"].endswith("WHERE closed_at IS NULL") and "UNIQUE" in found["sessions_open_key"]
    assert found["messages_open"].endswith("WHERE state = 'open'")
    assert "WHERE state = 'pending' OR state = 'sending'" in found["deliveries_unsent"]


async def test_migrating_twice_is_harmless_and_keeps_the_rows(house: House) -> None:
    await house.db.write(add)
    await migrate(house.db)
    await migrate(house.db)
    assert await house.db.read(count) == 1


def test_the_operators_verb_migrates_from_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a' / 'b' / 'new.db'}"
    in_thread(lambda: run(url))
    in_thread(lambda: run(url))
    engine = sa.create_engine(url)
    assert set(metadata.tables) <= set(sa.inspect(engine).get_table_names())
    engine.dispose()


def test_every_migration_can_be_told_from_its_neighbours() -> None:
    folder = Path(__file__).resolve().parents[3] / "app" / "migrations" / "versions"
    names = sorted(path.stem for path in folder.glob("[0-9]*.py"))
    numbers = [name[:4] for name in names]
    assert numbers and len(set(numbers)) == len(numbers) and all(number.isdecimal() for number in numbers)


async def test_a_transaction_is_whole_or_nothing(house: House) -> None:
    def half(tx: Tx) -> None:
        add(tx)
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        await house.db.write(half)
    assert await house.db.read(count) == 0
    await house.db.write(add)
    assert await house.db.read(count) == 1


async def test_an_error_of_the_database_comes_out_and_the_door_stays_open(house: House) -> None:
    await house.db.write(add)
    with pytest.raises(IntegrityError):
        await house.db.write(add)
    await house.db.write(add, 2, "k2")
    assert await house.db.read(count) == 2


async def test_work_and_its_arguments_run_off_the_loop(house: House) -> None:
    def who(_tx: Tx, first: int, *, second: int) -> tuple[int, int, bool]:
        return first, second, threading.current_thread() is threading.main_thread()

    assert await house.db.write(who, 1, second=2) == (1, 2, False)
    assert await house.db.read(who, 3, second=4) == (3, 4, False)


async def test_writers_of_two_doors_follow_one_another(house: House) -> None:
    """Two processes on one file: nobody is told that the database is locked."""
    other = house.other_door()

    def bump(tx: Tx) -> None:
        number = count(tx)
        tx.execute(sa.insert(sessions).values(session_row(number, f"k{number}")))

    await asyncio.gather(*(door.write(bump) for door in [house.db, other] * 10))
    assert await house.db.read(count) == 20
    await other.close()


async def test_a_reader_is_not_held_up_by_a_writer(house: House) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slowly(tx: Tx) -> None:
        add(tx)
        inside.set()
        leave.wait(10)

    writing = asyncio.ensure_future(house.db.write(slowly))
    await asyncio.to_thread(inside.wait, 10)
    assert await house.db.read(count) == 0
    leave.set()
    await writing
    assert await house.db.read(count) == 1


async def test_a_caller_that_is_cancelled_leaves_no_half_transaction(house: House) -> None:
    inside, leave = threading.Event(), threading.Event()

    def slowly(tx: Tx) -> None:
        inside.set()
        leave.wait(10)
        add(tx)

    writing = asyncio.ensure_future(house.db.write(slowly))
    await asyncio.to_thread(inside.wait, 10)
    writing.cancel()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await house.db.write(add, 2, "k2")
    assert await house.db.read(count) == 2


async def test_the_file_keeps_what_was_committed(house: House) -> None:
    def pragmas(tx: Tx) -> tuple[Any, ...]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return tuple(tx.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names)

    assert await house.db.write(pragmas) == ("wal", 2, 1)


async def test_inserting_what_may_be_there(house: House) -> None:
    def twice(tx: Tx) -> list[bool]:
        return [insert_if_absent(tx, sessions, session_row(1)) for _ in range(2)]

    assert await house.db.write(twice) == [True, False]
    assert await house.db.write(insert_if_absent, sessions, session_row(2)) is False
    assert await house.db.write(insert_if_absent, sessions, session_row(3, "other")) is True


def test_a_stored_moment_has_its_zone() -> None:
    assert moment(None) is None


@pytest.mark.parametrize("url", ["mysql://u@h/d", "postgres://u@h/d", "sqlite://", "nonsense", "", "://"])
def test_another_address_is_refused_with_what_is_accepted(url: str) -> None:
    with pytest.raises(ConfigError, match="DATABASE_URL: accepted are sqlite"):
        Database(url)


def test_a_password_is_not_in_the_refusal() -> None:
    with pytest.raises(ConfigError) as found:
        Database("mysql://u:hunter2hunter2@h/d")
    assert "hunter2" not in str(found.value)


def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)  # what an import of it finds where it is not installed
    with pytest.raises(ConfigError, match="the driver asyncpg is not installed"):
        Database("postgresql://u:p@h/d")
