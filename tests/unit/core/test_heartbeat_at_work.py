"""The heartbeat on the embedded engine: how little a quiet beat does, and what is seen of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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


async def test_beats_that_went_well_are_listed_only_where_they_are_asked_for(life: Embedded) -> None:
    await life.send(message())
    await life.pass_time(5 * 60, 60)
    shown = await life.link.runs.runs(100, None, None)
    assert {run["event"] for run in shown if run["function"].endswith("heartbeat")} == {"agent.turn.ended"}
    assert any(run["function"].endswith("handle-message") for run in shown)
    asked = await life.link.runs.runs(100, None, "moab-heartbeat")
    assert len(asked) in (6, 7)
