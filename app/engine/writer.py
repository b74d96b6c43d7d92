"""The one thread that owns the SQLite connection: changes queued together commit together (group commit)."""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.engine.errors import StoreFailed

log = logging.getLogger("moab.engine")
#: A statement and its values.
Statement = tuple[str, Sequence[Any]]
_GROUP = 512
#: Moving the log into the file costs several writes to the disk: every 16 MB is often enough.
_CHECKPOINT_PAGES = 4_000
#: What the write-ahead log is cut back to after a checkpoint.
_MAX_IDLE_WAL_BYTES = 16_000_000
#: The log gets room ahead of need: a flush that makes a file longer takes the disk nearly twice as long (measured).
_FIRST_ROOM_BYTES, _ROOM_PER_COMMIT_BYTES = 1_000_000, 32_000
_LOOK_EVERY_COMMITS = 256
#: On a disk that is faster, telling the loop what to prepare would take as long as the commit (measured).
_WORTH_PREPARING_S, _RECENT = 0.000_25, 8
#: Columns that younger versions of the schema have: files of older ones get them when they are opened.
_ADDED_COLUMNS = (
    ("functions", "paused", "INTEGER NOT NULL DEFAULT 0"),
    ("runs", "priority", "INTEGER NOT NULL DEFAULT 0"),
    ("runs", "replay_of", "TEXT"),
    ("runs", "reason", "TEXT"),
)


@dataclass(slots=True)
class _Write:
    statements: Sequence[Statement]
    done: "asyncio.Future[None]"
    ahead: Callable[[], None] | None


@dataclass(slots=True)
class _Read:
    question: Callable[[sqlite3.Connection], Any]
    done: "asyncio.Future[Any]"


class Writer:
    """Runs transactions in the order in which they were asked for; each waits for its commit to be on disk."""

    def __init__(self, path: Path, schema: str) -> None:
        self._path = path
        self._schema = schema
        self._queue: queue.SimpleQueue[_Write | _Read | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="engine-writer", daemon=True)
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._closed = False
        self._commits = 0
        self._commit_s = 0.0
        """What a commit takes at present, on average."""

    async def open(self) -> None:
        """Open the file and create what is missing; raises StoreFailed."""
        self._thread.start()
        await self._opened

    def write(self, statements: Sequence[Statement], ahead: Callable[[], None] | None = None) -> "asyncio.Future[None]":
        """Queue one transaction; the future is done once it is on disk, or fails with StoreFailed.

        `ahead` is called in the loop while the disk works on it, to prepare what follows: not where the disk is fast
        or something failed before, perhaps twice for one that is tried again without its neighbours.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        self._enqueue(_Write(statements, done, ahead))
        return done

    def read(self, question: Callable[[sqlite3.Connection], Any]) -> "asyncio.Future[Any]":
        """Ask a question; it sees every transaction queued before it."""
        done: asyncio.Future[Any] = self._loop.create_future()
        self._enqueue(_Read(question, done))
        return done

    async def close(self) -> None:
        """Finish what is queued and close the file."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            await self._loop.run_in_executor(None, self._thread.join)

    def _enqueue(self, item: _Write | _Read) -> None:
        if self._closed:
            item.done.set_exception(StoreFailed("The engine's file is closed."))
            return
        self._queue.put(item)

    def _run(self) -> None:
        try:
            connection = _connect(self._path, self._schema)
        except sqlite3.Error as error:
            self._answer([(self._opened, None, StoreFailed(f"Cannot open {self._path}: {error}."))])
            return
        self._answer([(self._opened, None, None)])
        while self._serve(connection):
            pass
        connection.close()

    def _serve(self, connection: sqlite3.Connection) -> bool:
        """Take one group from the queue; False when it ends with the closing mark."""
        item = self._queue.get()
        writes: list[_Write] = []
        while item is not None:
            if isinstance(item, _Write):
                writes.append(item)
            else:
                self._commit(connection, writes)
                writes = []
                self._read(connection, item)
            if len(writes) >= _GROUP:
                break
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
        self._commit(connection, writes)
        return item is not None

    def _read(self, connection: sqlite3.Connection, item: _Read) -> None:
        try:
            self._answer([(item.done, item.question(connection), None)])
        except Exception as error:  # handed to the one who asked; the thread must go on
            self._answer([(item.done, None, error)])

    def _commit(self, connection: sqlite3.Connection, writes: list[_Write]) -> None:
        if not writes:
            return
        self._make_room(connection)
        error = self._transact(connection, writes)
        if error is not None and len(writes) > 1:
            # One bad change must not take its neighbours along: each alone.
            for write in writes:
                self._answer([(write.done, None, self._transact(connection, [write]))])
            return
        self._answer([(write.done, None, error) for write in writes])

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Little for a process that writes little, up to the whole log for one that goes on."""
        self._commits += 1
        if self._commits.bit_count() == 1 or self._commits % _LOOK_EVERY_COMMITS == 0:
            room = max(_FIRST_ROOM_BYTES, self._commits * _ROOM_PER_COMMIT_BYTES)
            _lengthen(connection, self._path.with_name(f"{self._path.name}-wal"), min(room, _MAX_IDLE_WAL_BYTES))

    def _transact(self, connection: sqlite3.Connection, writes: list[_Write]) -> StoreFailed | None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            for write in writes:
                for sql, values in write.statements:
                    connection.execute(sql, values)
            ahead = [write.ahead for write in writes if write.ahead] if self._commit_s > _WORTH_PREPARING_S else []
            self._in_loop(_prepare, ahead)
            began = self._loop.time()
            connection.execute("COMMIT")
            if not ahead:  # else the loop held it up
                self._commit_s += (self._loop.time() - began - self._commit_s) / _RECENT
        except (sqlite3.Error, UnicodeEncodeError, OverflowError) as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return StoreFailed(f"A change could not be written: {error}.")
        return None

    def _answer(self, answers: "list[tuple[asyncio.Future[Any], Any, Exception | None]]") -> None:
        self._in_loop(_resolve, answers)

    def _in_loop(self, act: Callable[[list[Any]], None], items: list[Any]) -> None:
        if not items:
            return
        try:
            self._loop.call_soon_threadsafe(act, items)
        except RuntimeError:  # the loop is closed: nobody is left who could wait
            return


def _prepare(actions: list[Callable[[], None]]) -> None:
    for act in actions:
        act()


def _resolve(answers: "list[tuple[asyncio.Future[Any], Any, Exception | None]]") -> None:
    for done, value, error in answers:
        if done.done():
            continue
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)


def _lengthen(connection: sqlite3.Connection, wal: Path, size: int) -> None:
    """Zeros behind the end of the write-ahead log, which SQLite reads as the end. Where there is no space, none."""
    try:
        connection.execute("BEGIN IMMEDIATE")  # nobody else writes to the log meanwhile
        with wal.open("ab", buffering=0) as file:
            end = file.tell()
            missing = max(0, size - end)
            try:
                written = file.write(bytes(missing))
            except OSError:
                written = 0
            if written < missing:  # the rest of the disk is for what is to be kept
                file.truncate(end)
        connection.execute("COMMIT")
    except (sqlite3.Error, OSError) as error:
        log.warning("The engine's log got no room ahead of need: %s", error)
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _connect(path: Path, schema: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA journal_size_limit = {_MAX_IDLE_WAL_BYTES}")
    connection.executescript(schema)
    connection.execute("DROP INDEX IF EXISTS jobs_by_run")  # of older versions: a page more in every commit
    for table, column, declaration in _ADDED_COLUMNS:
        if column not in {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {declaration}")
    return connection
