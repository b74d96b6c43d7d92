"""The daily log: one file for each day of the user, one note for each key."""

import asyncio
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.clock import ManualClock
from app.memory import daily_log
from app.memory.daily_log import DailyLog


def log_at(folder: Path, moment: datetime, zone: str = "UTC") -> tuple[DailyLog, ManualClock]:
    clock = ManualClock(moment)
    return DailyLog(folder / "memory", ZoneInfo(zone), clock), clock


NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


async def test_notes_of_one_day_are_lines_of_one_file(tmp_path: Path) -> None:
    log, clock = log_at(tmp_path, NOON)
    assert await log.remember("likes\n tea ", "k1") == "Noted in memory/2026-01-05.md."
    clock.advance(90)
    await log.remember("and coffee", "k2")
    head, empty, *notes = (tmp_path / "memory" / "2026-01-05.md").read_text().splitlines()
    assert (head, empty) == ("# 2026-01-05", "")
    assert [note.partition(" <!--")[0] for note in notes] == ["- 12:00 likes tea", "- 12:01 and coffee"]


async def test_one_note_for_each_key(tmp_path: Path) -> None:
    log, clock = log_at(tmp_path, NOON)
    first = await log.remember("likes tea", "k1")
    clock.advance(3_600)
    assert await log.remember("likes tea", "k1") == first
    assert (tmp_path / "memory" / "2026-01-05.md").read_text().count("tea") == 1


async def test_a_step_repeated_behind_midnight_adds_nothing(tmp_path: Path) -> None:
    log, clock = log_at(tmp_path, datetime(2026, 1, 5, 23, 59, 50, tzinfo=UTC))
    assert await log.remember("likes tea", "k1") == "Noted in memory/2026-01-05.md."
    clock.advance(20)
    assert await log.remember("likes tea", "k1") == "Noted in memory/2026-01-05.md."
    assert await log.remember("likes tea", "k2") == "Noted in memory/2026-01-06.md."
    assert [entry.name for entry in log.files()] == ["2026-01-05.md", "2026-01-06.md"]


@pytest.mark.parametrize(
    ("moment", "zone", "day", "time"),
    [
        (datetime(2026, 1, 5, 23, 30, tzinfo=UTC), "Europe/Paris", "2026-01-06", "00:30"),
        (datetime(2026, 1, 5, 3, 30, tzinfo=UTC), "America/Los_Angeles", "2026-01-04", "19:30"),
        (datetime(2026, 3, 29, 1, 30, tzinfo=UTC), "Europe/Paris", "2026-03-29", "03:30"),
        (datetime(2026, 1, 5, 12, 0, tzinfo=UTC), "Pacific/Kiritimati", "2026-01-06", "02:00"),
    ],
)
async def test_the_day_is_the_users(tmp_path: Path, moment: datetime, zone: str, day: str, time: str) -> None:
    log, _ = log_at(tmp_path, moment, zone)
    assert log.today() == day
    await log.remember("x", "k")
    assert f"- {time} x" in (tmp_path / "memory" / f"{day}.md").read_text()


async def test_midnight_of_the_user_turns_the_page(tmp_path: Path) -> None:
    log, clock = log_at(tmp_path, datetime(2026, 1, 5, 22, 59, 59, tzinfo=UTC), "Europe/Paris")
    assert log.today() == "2026-01-05"
    clock.advance(1)
    assert log.today() == "2026-01-06"


async def test_many_notes_at_once_are_all_there(tmp_path: Path) -> None:
    log, _ = log_at(tmp_path, NOON)
    await asyncio.gather(*(log.remember(f"note {n}", f"k{n}") for n in range(20)))
    text = (tmp_path / "memory" / "2026-01-05.md").read_text()
    assert all(f"note {n} <!--" in text for n in range(20))


async def test_what_a_person_wrote_stays(tmp_path: Path) -> None:
    log, _ = log_at(tmp_path, NOON)
    path = tmp_path / "memory" / "2026-01-05.md"
    path.parent.mkdir()
    path.write_text("My own words.\n")
    await log.remember("likes tea", "k1")
    assert path.read_text().startswith("My own words.\n- 12:00 likes tea")


def test_the_logs_on_disk(tmp_path: Path) -> None:
    log, _ = log_at(tmp_path, NOON)
    assert log.files() == []
    folder = tmp_path / "memory"
    folder.mkdir()
    for name in ("2026-01-05.md", "2025-12-31.md", "2026-02-30.md", "2026-13-01.md", "notes.md", "2026-01-01.txt"):
        (folder / name).write_text("12345")
    (folder / "2026-01-02.md").mkdir()
    found = log.files()
    assert [(entry.name, entry.day, entry.size) for entry in found] == [
        ("2025-12-31.md", date(2025, 12, 31), 5),
        ("2026-01-05.md", date(2026, 1, 5), 5),
    ]
    (folder / "2026-01-05.md").write_text("other")
    assert log.files()[1].digest != found[1].digest and log.files()[0] == found[0]


def test_what_did_not_change_is_read_once_whoever_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat looks at the logs of everybody: what it costs must not grow with what they have written."""
    log, _ = log_at(tmp_path, NOON)
    hers = tmp_path / "people" / "ann" / "memory"
    hers.mkdir(parents=True)
    for name in ("2026-01-04.md", "2026-01-05.md"):
        (hers / name).write_text("12345")
    read: list[str] = []
    monkeypatch.setattr(daily_log, "_log_file", lambda path, prefix: read.append(prefix + path.name))
    for zone in ("UTC", "Europe/Paris"):
        log.of(hers, ZoneInfo(zone), "ann/").files()
    assert read == ["ann/2026-01-04.md", "ann/2026-01-05.md"]
    (hers / "2026-01-05.md").write_text("other words")
    (hers / "2026-01-04.md").unlink()
    log.of(hers, ZoneInfo("UTC"), "ann/").files()
    assert read[2:] == ["ann/2026-01-05.md"]
