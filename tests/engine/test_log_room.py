"""The room that the write-ahead log gets ahead of need: it changes nothing but the time of a commit."""

import asyncio
import resource
import shutil
import sqlite3
from pathlib import Path

from app.engine.writer import Writer

SCHEMA = "CREATE TABLE IF NOT EXISTS notes (number INTEGER PRIMARY KEY, text TEXT)"
for _table in ("functions", "runs"):
    SCHEMA += f"; CREATE TABLE IF NOT EXISTS {_table} (paused, priority, replay_of, reason)"


def _note(number: int) -> list[tuple[str, tuple[object, ...]]]:
    return [("INSERT INTO notes VALUES (?, ?)", (number, "x" * 2_000))]


def _copy(path: Path, name: str) -> list[int]:
    """What is read from the files as they lie there, as after the process died."""
    copied = path.with_name(name)
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{copied}{end}")
    connection = sqlite3.connect(copied)
    numbers = [row[0] for row in connection.execute("SELECT number FROM notes ORDER BY number")]
    connection.close()
    return numbers


def _log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


async def test_it_grows_with_use_and_a_dead_process_leaves_every_commit(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    writer = Writer(path, SCHEMA)
    await writer.open()
    sizes = []
    for number in range(700):
        await writer.write(_note(number))
        sizes.append(_log_size(path))
        if number in (0, 63, 699):
            assert await asyncio.to_thread(_copy, path, f"copy{number}.db") == list(range(number + 1))
    await writer.close()

    assert sizes[0] == sizes[20] == 1_000_000, "a short life needs little"
    assert sizes[-1] == 16_000_000, "nothing is added to the log while it is in use"
    assert not await asyncio.to_thread(Path(f"{path}-wal").exists)


async def test_it_is_had_again_after_the_log_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    writer = Writer(path, SCHEMA)
    await writer.open()
    for number in range(520):
        await writer.write(_note(number))
    await writer.read(lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    assert _log_size(path) == 0
    for number in range(520, 800):
        await writer.write(_note(number))

    assert _log_size(path) == 16_000_000
    assert await asyncio.to_thread(_copy, path, "copy.db") == list(range(800))
    await writer.close()


async def test_where_there_is_no_space_there_is_no_room_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    writer = Writer(path, SCHEMA)
    await writer.open()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, limits[1]))
    try:
        for number in range(20):
            await writer.write(_note(number))
            assert _log_size(path) < 600_000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert await asyncio.to_thread(_copy, path, "copy.db") == list(range(20))
    await writer.close()
