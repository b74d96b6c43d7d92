"""A month of beats by an injected clock: files, failures, nights, a change of the clocks, and three crashes.

By default a few days around the change of the clocks; MOAB_TEST_MONTH=1 runs all 43,200 beats.
"""

import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.agent.accept import accept
from app.goal_tables import goals
from app.memory.workspace import Workspace
from app.sessions import session
from app.tables import deliveries, messages, notices, turns, wakes
from app.work import wakes as wake_rows
from app.work.wakes import Wake, next_instant
from tests.unit.house import RUN, SESSION, make_house, message
from tests.unit.work.goal_house import view
from tests.unit.work.month import MINUTE, ZONE, Moody, World, future, is_night

WHOLE = bool(os.environ.get("MOAB_TEST_MONTH"))
DAYS = 30 if WHOLE else 3
START = datetime(2026, 3, 10 if WHOLE else 27, 10, 0, tzinfo=UTC)
DAILY = ("0 9 * * *", "30 2 * * *", "0 */6 * * *")
"""Repeating wakes, two of them at night, and one at an hour that is left out on 29 March."""


@pytest.fixture
async def world(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[World]:
    settings = {"timezone": "Europe/Paris", "heartbeat_cron": "* * * * *", "delivery_folder": tmp_path / "phone"}
    built = make_house(tmp_path / "house", template, **settings)
    Workspace(built.harness.workspace.root).seed()
    model = Moody()
    model.away = [(START + timedelta(hours=30), START + timedelta(hours=33))]
    built = replace(built, model=model, harness=replace(built.harness, llm=model))
    built.clock.advance((START - built.clock.now()).total_seconds())
    one = World(built)
    yield one
    one.close()
    await one.house.db.close()


def set_wake(world: World, number: int, due_at: datetime, cron: str | None = None) -> str:
    house, name = world.house, f"w{number}"
    with house.tx() as tx:
        session_id = session.find(tx, SESSION)
        assert session_id is not None
        common: dict[str, Any] = {"session_id": session_id, "session_key": SESSION, "channel": "test", "run_id": RUN}
        common |= {"destination": {"chatId": "7"}, "zone": "Europe/Paris", "created_at": world.now, "reason": name}
        wake_rows.add(tx, Wake(id=name, step_key=f"tool#{number}", due_at=due_at, cron=cron, **common))
    return name


class Plan:
    """What happens in which minute, from a fixed seed: files that come, copies of them, and broken ones."""

    def __init__(self, minutes: int) -> None:
        dice = random.Random(20260310)  # noqa: S311 - the same month every time
        self.files: dict[int, list[tuple[str, str]]] = {}
        self.good: list[str] = []
        self.broken: list[str] = []
        for number in range(max(8, DAYS * 2)):
            minute = dice.randrange(30, minutes - 400)
            kind = number % 8
            text = "" if kind == 7 else f"{'hopeless' if kind == 5 else 'Talk'} number {number}. " * 3
            self._add(minute, f"talk-{number:02}.txt", text)
            (self.broken if kind in (5, 7) else self.good).append(f"talk-{number:02}")
            if kind == 2:  # the same once more, under another name
                self._add(minute + 120, f"copy-of-{number:02}.txt", text)

    def _add(self, minute: int, name: str, text: str) -> None:
        self.files.setdefault(minute, []).append((name, text))


async def live(world: World, plan: Plan, minutes: int, crashes: dict[int, int], absences: dict[int, int]) -> None:
    """Minute by minute: files come, the process dies (and stays away for so many minutes), the heart beats."""
    gone = 0
    for minute in range(1, minutes + 1):
        at = START + MINUTE * minute
        world.house.clock.advance(max(0.0, (at - world.now).total_seconds()))
        for name, text in plan.files.get(minute, ()):
            world.put(name, text)
        if minute in crashes:
            world.crash_soon(crashes[minute])
        if minute in absences:
            gone = absences[minute]
        if gone:
            gone -= 1
            if not gone:
                await world.restart()
            continue
        await world.beat(at)


async def test_a_month_of_beats(world: World) -> None:
    minutes = DAYS * 24 * 60
    plan = Plan(minutes)
    await accept(world.house.harness, message("hello"))
    await world.beat(START + timedelta(seconds=1))
    repeating: dict[str, str] = {}
    for number, cron in enumerate(DAILY):
        first = next_instant(cron, "Europe/Paris", world.now)
        assert first is not None
        repeating[set_wake(world, number, first, cron)] = cron
    once = {
        set_wake(world, 10 + number, START + timedelta(hours=5 + number * 11, minutes=7)): 1
        for number in range(DAYS * 2 - 2)
    }
    absence = (minutes // 2, 300)  # killed, and nobody there for five hours
    await live(world, plan, minutes, {700: 1, 2_345: 4, minutes - 900: 7}, dict([absence]))
    for minute in range(1, 600):  # what is left over comes to its end
        await world.beat(START + MINUTE * (minutes + minute))

    await check_files(world, plan)
    check_wakes(world, repeating, once, minutes)
    check_the_phone(world)
    assert world.crashes == 4 and future(world) == ["agent.wake.due"]


async def check_files(world: World, plan: Plan) -> None:
    """Every file is processed once; of each goal there is at most one notice of failure."""
    rows = world.house.rows(goals.select())
    assert Counter(row.facts["title"] for row in rows) == Counter(name for name in plan.good + plan.broken)
    lives = {row.facts["title"]: (await view(world.house, row.id))["life"] for row in rows}
    assert {name: life for name, life in lives.items() if life == "COMPLETED"} == dict.fromkeys(plan.good, "COMPLETED")
    assert {lives[name] for name in plan.broken} <= {"FAILED_PERMANENT"}
    pages = sorted(path.stem[11:] for path in (world.house.harness.workspace.root / "wiki" / "raw").glob("*.md"))
    assert [page for page in pages if page in plan.good] == sorted(plan.good)
    told = [row.key.removesuffix("/0") for table in (deliveries, notices) for row in world.house.rows(table.select())]
    failed = Counter(key.split("/")[1] for key in told if key.startswith("goal/") and "/failed/" in key)
    assert set(failed.values()) <= {1} and len(failed) == len(plan.broken)
    done = Counter(key.split("/")[1] for key in told if key.startswith("goal/") and key.endswith("/notify"))
    assert set(done.values()) == {1} and len(done) == len(plan.good)


def check_wakes(world: World, repeating: dict[str, str], once: dict[str, int], minutes: int) -> None:
    """Every wake fired once for each of its times; of those that fell into the absence one fired, late."""
    end = world.now
    fired = Counter(
        row.message_key.split(":")[1] for row in world.house.rows(messages.select()) if row.origin == "wake"
    )
    assert {name: fired[name] for name in once} == once
    absent = (START + MINUTE * (minutes // 2), START + MINUTE * (minutes // 2 + 300))
    for name, cron in repeating.items():
        expected, at = 0, next_instant(cron, "Europe/Paris", START + timedelta(seconds=1))
        missed = 0
        while at is not None and at <= end:
            if absent[0] <= at < absent[1]:
                missed += 1
            else:
                expected += 1
            at = next_instant(cron, "Europe/Paris", at)
        assert fired[name] == expected + min(missed, 1), name
    states = Counter(row.state for row in world.house.rows(wakes.select()))
    assert states == {"done": len(once), "open": len(repeating)}
    woken = world.house.rows(turns.select().where(turns.c.origin == "wake"))
    assert {row.state for row in woken} <= {"finished", "failed", "superseded"}
    assert {row.state for row in world.house.rows(messages.select()) if row.role == "user"} <= {"answered", "failed"}


def check_the_phone(world: World) -> None:
    """No message at night, and in the mornings one for all that came up."""
    assert world.phone.rang and not [(at, text) for at, text in world.phone.rang if is_night(at)]
    mornings = [at for at, text in world.phone.rang if text.startswith("Good morning.")]
    assert len(mornings) >= DAYS - 1 and {(at.hour, at.minute) for at in mornings} <= {(6, 0), (6, 1)}
    assert len({at.date() for at in mornings}) == len(mornings)
    assert world.house.rows(notices.select().where(notices.c.told_at.is_(None))) == []
    changed = {at.utcoffset() for at in mornings}
    assert len(changed) == 2 and ZONE.key == "Europe/Paris"
