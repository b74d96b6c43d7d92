"""A request to send events that the SDK repeats, because no answer came, counts once."""

from pathlib import Path
from typing import Any

from tests.engine.lab import EVENT_KEY, Lab, running
from tests.engine.sample_functions import build

_SEED = "1796057051878,eii2YKXRVTJPuA=="


async def _post(lab: Lab, seed: str | None, *events: dict[str, Any]) -> list[str]:
    headers = {"x-inngest-event-id-seed": seed} if seed else {}
    async with lab.http(None) as client:
        answer = await client.post(f"/e/{EVENT_KEY}", json=list(events), headers=headers)
    await lab.engine.idle()
    ids: list[str] = answer.json()["ids"]
    return ids


async def test_a_repeated_request_gets_the_same_ids_and_starts_nothing(tmp_path: Path) -> None:
    events = [{"name": "rec/no-steps", "data": {"n": number}} for number in range(2)]
    path = tmp_path / "engine.db"
    async with running(path, build) as lab:
        first = await _post(lab, _SEED, *events)
        again = await _post(lab, _SEED, *events)
        other = await _post(lab, "1796057051879,eii2YKXRVTJPuA==", *events)
        unmarked = await _post(lab, None, *events)

        assert first == again
        assert len(set(first)) == 2
        assert not set(first) & set(other)
        assert not set(first) & set(unmarked)
        assert len(await lab.runs_of("rec-no-steps")) == 6
    async with running(path, build, clock=lab.clock) as lab:
        assert await _post(lab, _SEED, *events) == first, "also after a restart in between"
        assert len(await lab.runs_of("rec-no-steps")) == 6


async def test_it_is_remembered_for_ten_minutes(lab: Lab) -> None:
    event = {"name": "rec/no-steps"}
    first = await _post(lab, _SEED, event)
    lab.clock.advance(601)
    await lab.engine.prune()

    assert await _post(lab, _SEED, event) != first


async def test_an_invocations_mark_is_not_passed_on(lab: Lab) -> None:
    run = await lab.run_of(await lab.send("rec/no-steps", {"a": 1, "_inngest": {"correlation_id": "x"}}))

    assert run.event["data"] == {"a": 1}
