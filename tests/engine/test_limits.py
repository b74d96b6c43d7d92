"""Inngest's limits; whoever goes over one reads which."""

from pathlib import Path

import pytest

from app.engine.errors import BadEvent
from tests.engine.lab import Lab, running
from tests.engine.sample_functions import build


async def test_an_event_has_at_most_256_kib(lab: Lab) -> None:
    await lab.send("rec/no-steps", {"text": "x" * 262_000})
    with pytest.raises(BadEvent, match=r"event 'rec/no-steps' has 26\d{4} bytes; at most 262144 are accepted"):
        await lab.send("rec/no-steps", {"text": "x" * 262_144})
    assert len(await lab.runs_of("rec-no-steps")) == 1


async def test_the_limit_of_events_can_be_set(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", build, max_event_bytes=1_000_000) as lab:
        await lab.send("rec/no-steps", {"text": "x" * 900_000})
        with pytest.raises(BadEvent, match="at most 1000000 are accepted"):
            await lab.send("rec/no-steps", {"text": "x" * 1_000_000})
        assert (await lab.runs_of("rec-no-steps"))[0].status == "Completed"


async def test_all_of_a_request_or_none(lab: Lab) -> None:
    with pytest.raises(BadEvent):
        await lab.engine.send([{"name": "rec/no-steps"}, {"name": "rec/no-steps", "data": {"t": "x" * 300_000}}])
    await lab.engine.idle()

    assert await lab.engine.runs() == []
