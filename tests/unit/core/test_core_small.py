"""The small rooms everybody stands on: clock, ids, files, notifier, failpoints, errors."""

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from filelock import FileLock

from app import errors, failpoints
from app.clock import ManualClock, SystemClock, milliseconds
from app.config import Settings
from app.files import write_atomic
from app.ids import new_id
from app.main import running
from app.notify import Notifier


def test_the_systems_clock_is_aware_and_in_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)


async def test_the_systems_clock_does_not_sleep_backwards() -> None:
    await SystemClock().sleep(-5)


async def test_sleepers_wake_in_the_order_of_their_time() -> None:
    clock = ManualClock(datetime(2026, 1, 5, tzinfo=UTC))
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    sleepers = [asyncio.ensure_future(sleep(name, s)) for name, s in (("b", 5), ("a", 1), ("c", 5), ("d", 60))]
    await asyncio.sleep(0)
    clock.advance(5)
    await asyncio.sleep(0)
    assert woken == ["a", "b", "c"] and clock.now() == datetime(2026, 1, 5, 0, 0, 5, tzinfo=UTC)
    sleepers[3].cancel()
    clock.advance(60)
    await asyncio.sleep(0)
    assert woken == ["a", "b", "c"]
    await clock.sleep(0)
    await clock.sleep(-1)


async def test_a_clock_set_back_wakes_nobody() -> None:
    clock = ManualClock()
    sleeper = asyncio.ensure_future(clock.sleep(10))
    await asyncio.sleep(0)
    clock.advance(-100)
    clock.advance(105)
    await asyncio.sleep(0)
    assert not sleeper.done()
    clock.advance(5)
    await sleeper


def test_ids_sort_by_time() -> None:
    clock = ManualClock()
    ids = []
    for _ in range(5):
        ids.append(new_id(clock))
        clock.advance(0.001)
    assert ids == sorted(ids) and len(set(ids)) == 5 and {len(one) for one in ids} == {26}
    assert len({new_id(clock) for _ in range(100)}) == 100


def test_a_file_is_replaced_in_one_move(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.txt"
    write_atomic(path, "ü\n")
    assert path.read_bytes() == "ü\n".encode() and stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    write_atomic(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "old")

    def refuse(*_args: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no room"):
        write_atomic(path, "new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


async def test_publishing_wakes_the_waiters_of_the_key() -> None:
    notifier = Notifier()
    waiting = [asyncio.ensure_future(notifier.wait(key, 60)) for key in ("a", "a", "b")]
    await asyncio.sleep(0)
    notifier.publish("a")
    await asyncio.wait_for(asyncio.gather(*waiting[:2]), 5)
    assert not waiting[2].done()
    waiting[2].cancel()
    await asyncio.gather(waiting[2], return_exceptions=True)
    assert not notifier._waiting


async def test_waiting_ends_by_itself() -> None:
    notifier = Notifier()
    await notifier.wait("a", 0.001)
    notifier.publish("a")
    assert not notifier._waiting


async def test_a_closed_notifier_holds_nobody_up() -> None:
    notifier = Notifier()
    waiting = asyncio.ensure_future(notifier.wait("a", 60))
    await asyncio.sleep(0)
    notifier.close()
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(notifier.wait("a", 60), 5)


def test_an_unarmed_failpoint_is_nothing() -> None:
    failpoints.arm("")
    failpoints.reach("anything")


@pytest.mark.parametrize(("spec", "reached"), [("here", 1), ("here:3", 3)])
def test_an_armed_failpoint_kills_at_its_count(spec: str, reached: int) -> None:
    code = f"""
import sys
from app import failpoints
failpoints.arm({spec!r})
failpoints.reach("elsewhere")
while True:
    sys.stdout.write("x")
    sys.stdout.flush()
    failpoints.reach("here")
"""
    root = Path(__file__).resolve().parents[3]
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=60)
    assert found.returncode == -signal.SIGKILL and found.stdout == "x" * reached


def test_the_docstring_of_an_error_is_its_sentence() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MoabError)]
    assert len(kinds) <= 12
    for kind in kinds:
        assert str(kind()) == (kind.__doc__ or "").strip() and str(kind("other")) == "other"
        assert str(kind()).endswith(".")


def test_milliseconds_are_rounded_up() -> None:
    noon = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
    assert [milliseconds(noon + timedelta(microseconds=n)) - 1_767_614_400_000 for n in (0, 1, 999, 1_000, 1_001)] == [
        0, 1, 1, 1, 2,
    ]  # fmt: skip


async def test_a_home_in_use_is_told_before_its_port(tmp_path: Path, clean_environment: None) -> None:
    """Another port would not help."""
    settings = Settings(_env_file=None, moab_home=tmp_path)
    with FileLock(tmp_path / "moab.lock"), socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(errors.ConfigError, match="Another Moab runs on"):
            async with running(settings, port=taken.getsockname()[1]):
                raise AssertionError("it runs")
