"""A month of beats by an injected clock: files, failures, nights, a change of the clocks, and four kills.

By default the two days around the change of the clocks; `make month` lives through all 43,200 minutes. Every beat
is a run of the real function on the real engine, with its own file, the service's database and the watched folders.
"""

import asyncio
import json
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.goal_tables import goals
from app.tables import deliveries, messages, notices, turns, wakes
from app.work.wakes import next_instant
from tests.unit.house import House, make_house
from tests.unit.work.goal_house import view
from tests.unit.work.month import CRASHES, DAILY, DAYS, MINUTE, MINUTES, START, TAIL, ZONE, Plan, wakes_once

ROOT = Path(__file__).parents[3]
END = START + MINUTE * (MINUTES + TAIL)
KEPT = timedelta(days=13)
"""The engine keeps runs for fourteen days."""


MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
ROOM_BYTES = 400_000_000


async def live(home: Path, template: Path) -> list[int]:
    """All lives of the process; how each ended."""
    words = ("-W", "ignore", "-m", "tests.unit.work.month", str(home), str(template))
    process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    ends, _ = await process.communicate()
    return [int(end) for end in ends.split()]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Where the house stands: in memory if there is room.

    What a killed process wrote is there for the next one on any file system, and three flushes a minute to a disk take
    longer than all that is tested.
    """
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    with tempfile.TemporaryDirectory(prefix="month-", dir=MEMORY if has_room else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
async def lived(home: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    """The house after the month."""
    assert await live(home, template) == [signal.SIGKILL] * len(CRASHES) + [0]
    house = make_house(home, template)
    yield house
    await house.db.close()


async def test_a_month_of_beats(lived: House) -> None:
    home = lived.harness.settings.home
    check_beats(home / "engine.db")
    await check_files(lived)
    check_wakes(lived)
    check_the_phone(lived, home / "phone")


def check_beats(path: Path) -> None:
    """A run for every minute in which there was a process, all well; and nothing but wakes was sent for later."""
    since = max(START, END - KEPT)
    with sqlite3.connect(path) as engine:
        runs = engine.execute(
            "SELECT json_extract(e.body, '$.ts'), r.status FROM runs r JOIN events e ON e.internal_id = r.event_id "
            "WHERE r.function = 'moab-heartbeat' AND e.name = 'inngest/scheduled.timer'"
        ).fetchall()
        later = engine.execute(
            "SELECT DISTINCT name FROM events WHERE json_extract(body, '$.ts') > received_at + 1000"
        ).fetchall()
    beats = [datetime.fromtimestamp(ts / 1000, ZONE) for ts, _ in runs]
    absent = {START + MINUTE * (crash.minute + gone) for crash in CRASHES for gone in range(crash.away)}
    alive = {START + MINUTE * minute for minute in range(1, MINUTES + TAIL + 1)} - absent
    assert {at for at in alive if at > since} <= set(beats) and len(beats) == len(set(beats))
    assert {status for _, status in runs} == {"Completed"} and later == [("agent.wake.due",)]


async def check_files(house: House) -> None:
    """Every file is processed once; of each goal there is at most one notice of failure."""
    plan, rows = Plan(), house.rows(goals.select())
    assert Counter(row.facts["title"] for row in rows) == Counter(plan.good + plan.broken)
    lives = {row.facts["title"]: (await view(house, row.id))["life"] for row in rows}
    assert {name: life for name, life in lives.items() if life == "COMPLETED"} == dict.fromkeys(plan.good, "COMPLETED")
    assert {lives[name] for name in plan.broken} <= {"FAILED_PERMANENT"}
    pages = sorted(path.stem[11:] for path in (house.harness.workspace.root / "wiki" / "raw").glob("*.md"))
    assert [page for page in pages if page in plan.good] == sorted(plan.good)
    told = [row.key.removesuffix("/0") for table in (deliveries, notices) for row in house.rows(table.select())]
    failed = Counter(key.split("/")[1] for key in told if key.startswith("goal/") and "/failed/" in key)
    assert set(failed.values()) <= {1} and len(failed) == len(plan.broken)
    done = Counter(key.split("/")[1] for key in told if key.startswith("goal/") and key.endswith("/notify"))
    assert set(done.values()) == {1} and len(done) == len(plan.good)


def instants(cron: str) -> list[datetime]:
    found, at = [], next_instant(cron, ZONE.key, START)
    while at is not None and at <= END:
        found.append(at)
        at = next_instant(cron, ZONE.key, at)
    return found


def check_wakes(house: House) -> None:
    """Every wake fired once for each of its times; of those that fell into an absence one fired, late."""
    inputs = [row for row in house.rows(messages.select()) if row.role == "user"]
    fired = Counter(row.message_key.split(":")[1] for row in inputs if row.origin == "wake")
    once = {f"o{number}": 1 for number in range(len(wakes_once()))}
    assert {name: fired[name] for name in once} == once
    gone = [(START + MINUTE * one.minute, START + MINUTE * (one.minute + one.away)) for one in CRASHES if one.away]
    for number, cron in enumerate(DAILY):
        times = instants(cron)
        missed = [[at for at in times if begin <= at < end] for begin, end in gone]
        assert fired[f"r{number}"] == len(times) - sum(len(one) - 1 for one in missed if one), cron
    assert Counter(row.state for row in house.rows(wakes.select())) == {"done": len(once), "open": len(DAILY)}
    woken = house.rows(turns.select().where(turns.c.origin == "wake"))
    assert {row.state for row in woken} <= {"finished", "failed", "superseded"}
    assert {row.state for row in inputs} <= {"answered", "failed"}


def check_the_phone(house: House, notes: Path) -> None:
    """No message at night, and in the mornings one for all that came up."""
    rang: list[Any] = [json.loads(line) for line in notes.read_text().splitlines()]
    calls = [(datetime.fromisoformat(at).astimezone(ZONE), text) for at, text in rang]
    assert calls and not [(at, text) for at, text in calls if at.hour >= 23 or at.hour < 6]
    summaries = [(at, text) for at, text in calls if text.startswith("Good morning.")]
    mornings = [at for at, _ in summaries]
    assert len(mornings) >= DAYS - 1 and {(at.hour, at.minute) for at in mornings} <= {(6, 0), (6, 1)}
    # One whose sender died before it was noted is told again, word for word (ADR 0002).
    told = {(at.date(), text) for at, text in summaries}
    assert len({at.date() for at in mornings}) == len(told) and len(summaries) - len(told) <= len(CRASHES)
    assert house.rows(notices.select().where(notices.c.told_at.is_(None))) == []
    assert len({at.utcoffset() for at in mornings}) == 2, "before and after the change of the clocks"
