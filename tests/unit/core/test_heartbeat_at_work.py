"""The heartbeat on the embedded engine: how little a quiet beat does, and what is seen of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.agent.heartbeat import beat, tick
from app.agent.heartbeat.look import look_around
from app.events import CLOCK, BeatDue, WakeDue
from tests.unit.core.embedded import Embedded, embedded
from tests.unit.house import message


@pytest.fixture
async def life(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[Embedded]:
    async with embedded(tmp_path / "house", template, heartbeat_cron="") as one:
        yield one


async def test_a_quiet_beat_asks_no_model_and_takes_no_step(life: Embedded) -> None:
    """Heartbeat burned 248 dollars on an idle session: cheap test first."""
    await life.pass_time(10 * 60, 60)
    beats = await life.runs("heartbeat")
    assert len(beats) in (10, 11) and {beat.status for beat in beats} == {"Completed"}
    assert [await life.steps(beat) for beat in beats] == [[]] * len(beats)
    assert life.house.model.requests == [] and life.house.channel.sent == []


async def test_a_beat_never_overlaps_itself_but_events_are_heard(
    life: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A beat that takes minutes: what the clock would have done is left out, what an event announces is not."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> dict[str, Any]:
        begun.set()
        await go_on.wait()
        return await look_around(*given)

    async def never(_: Any) -> bool:
        return False

    monkeypatch.setattr(beat, "look_around", slow)
    monkeypatch.setattr(tick, "is_quiet", never)
    life.clock.advance(60)
    await begun.wait()
    for minutes in range(2, 5):
        life.clock.advance(60)
        while len(await ended(life, CLOCK)) < minutes:  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0)
    wake = WakeDue(session_key="test:chat", wake_id="w1")
    await life.link.send([wake.to_wire("one"), wake.to_wire("two")])
    go_on.set()
    await life.link.engine.idle()
    names = Counter(run.event_name for run in await life.runs("heartbeat"))
    assert names == {CLOCK: 4, BeatDue.name: 1, WakeDue.name: 2}
    monkeypatch.undo()
    before = len(await life.runs("heartbeat"))
    await life.pass_time(120, 60)
    assert len(await life.runs("heartbeat")) == before + 2


async def test_what_a_beat_of_the_clock_finds_is_done_in_steps(life: Embedded) -> None:
    (life.house.harness.daily_log.folder / "2026-01-04.md").write_text("- 12:00 likes tea\n")
    await life.pass_time(60, 60)
    (due,) = [run for run in await life.runs("heartbeat") if run.event_name == BeatDue.name]
    assert due.status == "Completed" and await life.steps(due) == ["look", "distil"]
    assert await life.link.runs.runs(100, None, None) == [], "it went well"
    asked = await life.link.runs.runs(100, None, "moab-heartbeat")
    assert BeatDue.name in [run["event"] for run in asked]


async def ended(life: Embedded, event: str) -> list[str]:
    runs = await life.runs("heartbeat")
    return [run.id for run in runs if run.event_name == event and run.status == "Completed"]


async def test_beats_that_went_well_are_listed_only_where_they_are_asked_for(life: Embedded) -> None:
    await life.send(message())
    await life.pass_time(5 * 60, 60)
    shown = await life.link.runs.runs(100, None, None)
    assert {run["event"] for run in shown if run["function"].endswith("heartbeat")} == {"agent.turn.ended"}
    assert any(run["function"].endswith("handle-message") for run in shown)
    asked = await life.link.runs.runs(100, None, "moab-heartbeat")
    assert len(asked) in (6, 7)
