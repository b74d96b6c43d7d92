"""The heartbeat on the embedded engine: how little a quiet beat does, and what is seen of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.heartbeat import beat
from app.agent.heartbeat.look import look_around
from app.events import WakeDue
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, heartbeat_cron="") as one:
        yield one


async def test_a_quiet_beat_asks_no_model_and_takes_one_step(life: Embedded) -> None:
    """Heartbeat burned 248 dollars on an idle session: cheap test first."""
    await life.pass_time(10 * 60, 60)
    beats = await life.runs("heartbeat")
    assert len(beats) in (10, 11) and {beat.status for beat in beats} == {"Completed"}
    assert [await life.steps(beat) for beat in beats] == [["look"]] * len(beats)
    assert life.house.model.requests == [] and life.house.channel.sent == []


async def test_a_beat_never_overlaps_itself_but_events_are_heard(
    life: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beat that takes minutes: those of the schedule are left out, what an event announces is not."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> dict[str, Any]:
        begun.set()
        await go_on.wait()
        return await look_around(*given)

    monkeypatch.setattr(beat, "look_around", slow)
    life.clock.advance(60)
    await begun.wait()
    for _ in range(3):
        life.clock.advance(60)
        for _ in range(5):  # the scheduler wakes
            await asyncio.sleep(0)
        await life.link.engine.store.rows("SELECT 1")  # what it writes is written
    wake = WakeDue(session_key="test:chat", wake_id="w1")
    await life.link.send([wake.to_wire("one"), wake.to_wire("two")])
    go_on.set()
    await life.link.engine.idle()
    names = Counter(run.event_name for run in await life.runs("heartbeat"))
    assert names[WakeDue.name] == 2 and names["inngest/scheduled.timer"] in (1, 2)
    monkeypatch.undo()
    before = len(await life.runs("heartbeat"))
    await life.pass_time(120, 60)
    assert len(await life.runs("heartbeat")) == before + 2


async def test_beats_that_went_well_are_listed_only_where_they_are_asked_for(life: Embedded) -> None:
    await life.send(message())
    await life.pass_time(5 * 60, 60)
    shown = await life.link.runs.runs(100, None, None)
    assert {run["event"] for run in shown if run["function"].endswith("heartbeat")} == {"agent.turn.ended"}
    assert any(run["function"].endswith("handle-message") for run in shown)
    asked = await life.link.runs.runs(100, None, "moab-heartbeat")
    assert len(asked) in (6, 7)
