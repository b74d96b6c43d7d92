"""The door to the engine's file: transactions in, rows out, old rows pruned."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from app.engine.ids import encode_ulid
from app.engine.live import DEDUPE_MS
from app.engine.loading import Stored, interruptions, load, load_memos
from app.engine.model import Memos
from app.engine.writer import Statement, Writer

_PRUNE_BATCH = 200
#: Pages given back to the file system per batch at most: 8 MB, so that nobody waits long behind it.
_VACUUM_PAGES = 2_000
SEND_MEMORY_MS = 600_000
_UNUSED_EVENTS = (
    "SELECT internal_id AS id FROM events WHERE internal_id < ? "
    "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.internal_id) "
    "AND NOT EXISTS (SELECT 1 FROM run_events WHERE run_events.event_id = events.internal_id) "
    "AND NOT EXISTS (SELECT 1 FROM held WHERE held.event_id = events.internal_id) LIMIT ?"
)
_DELETE_RUN = (
    "DELETE FROM run_events WHERE run_id = ?",
    "DELETE FROM steps WHERE run_id = ?",
    "DELETE FROM failures WHERE run_id = ?",
    "DELETE FROM runs WHERE id = ?",
)


_RUNS_OF_EVENT = (
    "SELECT id, ended_at FROM runs WHERE event_id = ? OR id IN (SELECT run_id FROM run_events WHERE event_id = ?)"
)
_DELETE_UNUSED_EVENT = (
    "DELETE FROM events WHERE internal_id = ? "
    "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.event_id = events.internal_id) "
    "AND NOT EXISTS (SELECT 1 FROM run_events WHERE run_events.event_id = events.internal_id) "
    "AND NOT EXISTS (SELECT 1 FROM held WHERE held.event_id = events.internal_id)"
)
_DELETE_ID_OF_EVENT = (
    "DELETE FROM event_ids WHERE (name, id) IN "
    "(SELECT name, json_extract(body, '$.id') FROM events WHERE internal_id = ?)"
)


class Store:
    """The door to the file. Writing is one call: a list of statements that commit together."""

    def __init__(self, path: Path) -> None:
        self._writer = Writer(path, Path(__file__).with_name("schema.sql").read_text())

    async def open(self, now_ms: int) -> Stored:
        """Open the file and read what is open in it; counts the interruption of every call that was in flight."""
        await self._writer.open()
        stored: Stored = await self._writer.read(lambda connection: load(connection, now_ms))
        await self._writer.write(interruptions(stored.interrupted))
        return stored

    async def close(self) -> None:
        await self._writer.close()

    def write(self, statements: Sequence[Statement], ahead: Callable[[], None] | None = None) -> "asyncio.Future[None]":
        """Queue one transaction behind those queued before; done when it is on disk. Raises StoreFailed.

        `ahead` may be called while the disk works on it.
        """
        return self._writer.write(statements, ahead)

    async def memos(self, run_id: str) -> Memos:
        """The finished steps of a run in order of completion."""
        found: Memos = await self._writer.read(lambda connection: load_memos(connection, run_id))
        return found

    async def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """Answer a question."""

        def ask(connection: sqlite3.Connection) -> list[sqlite3.Row]:
            cursor = connection.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(sql, values).fetchall()

        found: list[sqlite3.Row] = await self._writer.read(ask)
        return found

    async def prune(self, now_ms: int, before_ms: int) -> int:
        """Delete a small batch of runs that ended before a moment, and of events that no run needs any more.

        Returns how many runs and events were deleted; 0 when none is left.
        """
        runs = await self.rows(
            "SELECT id FROM runs WHERE ended_at < ? ORDER BY ended_at LIMIT ?", before_ms, _PRUNE_BATCH
        )
        events = await self.rows(_UNUSED_EVENTS, encode_ulid(before_ms << 80), _PRUNE_BATCH)
        statements: list[Statement] = [("DELETE FROM events WHERE internal_id = ?", (row["id"],)) for row in events]
        for row in runs:
            statements += [(sql, (row["id"],)) for sql in _DELETE_RUN]
        statements += [
            ("DELETE FROM event_ids WHERE received_at < ?", (now_ms - DEDUPE_MS,)),
            ("DELETE FROM sends WHERE received_at < ?", (now_ms - SEND_MEMORY_MS,)),
            ("DELETE FROM rates WHERE tat < ?", (now_ms * 1000,)),
            ("DELETE FROM cancellations WHERE created_at < ?", (before_ms,)),
        ]
        await self.write(statements)
        await self._give_back(_VACUUM_PAGES)
        return len(runs) + len(events)

    async def events_about(self, paths: Sequence[str], values: Sequence[str]) -> list[str]:
        """Ids of the events whose body has one of `values` at one of the JSON `paths`."""
        wanted = json.dumps(list(values))
        has_one = " OR ".join("json_extract(body, ?) IN (SELECT value FROM json_each(?))" for _ in paths)
        given = [value for path in paths for value in (path, wanted)]
        about = f"SELECT internal_id FROM events WHERE {has_one}"  # noqa: S608 - question marks only
        return [row["internal_id"] for row in await self.rows(about, *given)]

    async def open_runs_of(self, events: Sequence[str]) -> list[str]:
        """Ids of the runs of these events that are not at their end."""
        found = [row for event in events for row in await self.rows(_RUNS_OF_EVENT, event, event)]
        return [row["id"] for row in found if row["ended_at"] is None]

    async def forget(self, events: Sequence[str]) -> tuple[int, int]:
        """Delete these events, what is known of their ids, and their runs.

        Returns how many runs were deleted, and how many are not at their end yet and stay.
        """
        statements: list[Statement] = []
        ended = still_open = 0
        for event in events:
            for run in await self.rows(_RUNS_OF_EVENT, event, event):
                if run["ended_at"] is None:
                    still_open += 1
                else:
                    ended += 1
                    statements += [(sql, (run["id"],)) for sql in _DELETE_RUN]
            statements += [(_DELETE_ID_OF_EVENT, (event,)), (_DELETE_UNUSED_EVENT, (event,))]
        await self.write(statements)
        return ended, still_open

    async def scrub(self) -> None:
        """Write the file anew, so that nothing of what was deleted is left in it or in the write-ahead log."""
        await self._writer.read(lambda connection: connection.execute("VACUUM").fetchall())
        await self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    async def shrink(self) -> None:
        """Give what pruning freed back to the file system, also from the write-ahead log."""
        while (await self.rows("PRAGMA freelist_count"))[0][0]:
            await self._give_back(_VACUUM_PAGES)
        await self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    async def _give_back(self, pages: int) -> None:
        # As a script: a statement that gives no rows is stepped once, which frees one page.
        await self._writer.read(lambda connection: connection.executescript(f"PRAGMA incremental_vacuum({pages})"))
