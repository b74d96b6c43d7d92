"""Cron jitter: the same instant starts once, a little later, also over a restart."""

from datetime import UTC, datetime
from pathlib import Path

import inngest

from app.clock import ManualClock
from app.engine.policies.jitter import offset_ms
from tests.engine.lab import running
from tests.engine.workshop import Noted


async def test_instants_start_late_by_their_jitter(tmp_path: Path) -> None:
    clock, path = ManualClock(datetime(2026, 11, 30, 16, 42, 30, tzinfo=UTC)), tmp_path / "engine.db"
    noted = Noted(trigger=inngest.TriggerCron(cron="* * * * *", jitter="40s"))
    late: dict[str, float] = {}

    async def watch(seconds: int) -> None:
        async with running(path, noted.build, clock=clock) as lab:
            for _ in range(seconds):
                before = len(noted.seen)
                await lab.pass_time(1)
                for (data,) in noted.seen[before:]:
                    instant = datetime.fromisoformat(data["scheduledAt"])
                    late[data["scheduledAt"]] = (clock.now() - instant).total_seconds()
                    assert datetime.fromisoformat(data["fireAt"]) <= clock.now()

    await watch(35)
    await watch(200)

    instants = [f"2026-11-30T16:{minute}:00Z" for minute in (43, 44, 45)]
    assert sorted(late)[:3] == instants, "each instant once, none skipped by the restart"
    assert len(noted.seen) == len(late)
    for text, seconds in late.items():
        offset = offset_ms("rec-noted", int(datetime.fromisoformat(text).timestamp() * 1000), 40_000) / 1000
        assert offset <= seconds < offset + 1.5
