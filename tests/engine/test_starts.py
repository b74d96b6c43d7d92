"""Which events start what: filters, wildcards, cron, singletons, time, sender ids."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.clock import ManualClock
from tests.engine import recorded
from tests.engine.lab import Lab, running
from tests.engine.sample_functions import build


@pytest.mark.parametrize(
    ("name", "data", "output"),
    [
        ("rec/filtered", {"n": 6}, "rec/filtered"),
        ("rec/filtered", {"n": 5}, None),
        ("rec/filtered", {}, None),
        ("rec/alt.one", {}, "rec/alt.one"),
        ("rec/alt.one.two", {}, "rec/alt.one.two"),
        ("rec/alternative", {}, None),
    ],
)
async def test_filters_and_wildcards(lab: Lab, name: str, data: dict[str, int], output: str | None) -> None:
    runs = await lab.engine.runs(event_id=await lab.send(name, data))

    assert [run.output for run in runs] == ([output] if output else [])


async def test_cron_fires_each_instant_once(tmp_path: Path) -> None:
    clock = ManualClock(datetime(2026, 11, 30, 16, 42, 30, tzinfo=UTC))
    async with running(tmp_path / "engine.db", build, clock=clock) as lab:
        await lab.pass_time(180, step_s=10)

        plain, real = recorded.Plain(), recorded.Plain()
        played = [
            plain.exchange(call.query, call.headers, call.body, call.status, call.answer)
            for call in lab.calls_of("rec-cron")
        ]
        instants = [call.body["event"]["id"] for call in lab.calls_of("rec-cron")]

    expected = recorded.calls("cron")
    assert played == [
        real.exchange(call["query"], call["headers"], call["body"], call["status"], call["resp"]) for call in expected
    ]
    assert instants == [call["body"]["event"]["id"] for call in expected]


# TRAPS, Life and death: "Cron after a restart runs twice, skips days".
async def test_cron_over_a_restart(tmp_path: Path) -> None:
    clock, path = ManualClock(datetime(2026, 11, 30, 16, 42, 30, tzinfo=UTC)), tmp_path / "engine.db"
    fired: list[str] = []
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(40)
        fired += [call.body["event"]["id"][11:16] for call in lab.calls_of("rec-cron")]
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(10)
        assert lab.calls_of("rec-cron") == [], "an instant that ran does not run again"
    clock.advance(600)
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(60, step_s=5)
        fired += [call.body["event"]["id"][11:16] for call in lab.calls_of("rec-cron")]

    assert fired == ["16:43", "16:53", "16:54"], "of the missed instants only the latest runs, late"


async def test_cron_after_a_long_pause_does_not_burst(lab: Lab) -> None:
    lab.clock.advance(3_600)
    await lab.engine.idle()

    assert len(lab.calls_of("rec-cron")) == 1


async def test_singleton_skip(lab: Lab) -> None:
    ids = [await lab.send("rec/single-skip", {"sessionKey": "a", "m": number}) for number in (1, 2)]
    other = await lab.send("rec/single-skip", {"sessionKey": "b", "m": 3})
    await lab.pass_time(3)

    assert [len(await lab.engine.runs(event_id=event_id)) for event_id in ids] == [1, 0]
    assert (await lab.run_of(other)).run.output == 3
    assert len(await lab.engine.runs(event_id=await lab.send("rec/single-skip", {"sessionKey": "a"}))) == 1


async def test_strict_singleton_gives_every_event_a_run_and_the_latest_wins(lab: Lab) -> None:
    for number in range(5):
        await lab.send("rec/single-cancel", {"sessionKey": "a", "m": number})
        lab.clock.advance(0.03)
    await lab.pass_time(3)

    runs = await lab.runs_of("rec-single-cancel")
    assert [run.status for run in runs] == ["Cancelled"] * 4 + ["Completed"]
    assert runs[-1].output == 4
    assert [run.id for run in runs] == sorted(run.id for run in runs)


async def test_five_events_in_one_request(lab: Lab) -> None:
    await lab.engine.send(
        [{"name": "rec/single-cancel", "data": {"sessionKey": "a", "m": number}} for number in range(5)]
    )
    await lab.engine.idle()
    await lab.pass_time(3)

    assert [run.status for run in await lab.runs_of("rec-single-cancel")] == ["Cancelled"] * 4 + ["Completed"]


async def test_lossy_singleton_starts_two_of_five(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", build, singleton_lossy=True) as lab:
        for number in range(5):
            await lab.send("rec/single-cancel", {"sessionKey": "a", "m": number})
            lab.clock.advance(0.03)
        await lab.pass_time(3)

        runs = await lab.runs_of("rec-single-cancel")
        assert [run.status for run in runs] == ["Cancelled", "Completed"]


async def test_a_false_key_makes_no_singleton(lab: Lab) -> None:
    person = await lab.send("rec/steered", {"sessionKey": "a", "m": "person"})
    machine = await lab.send("rec/steered", {"sessionKey": "a", "m": "machine", "steers": False})
    assert (await lab.run_of(person)).run.status == "Running", "a machine's start cancels nobody"

    newer = await lab.send("rec/steered", {"sessionKey": "a", "m": "newer"})
    await lab.pass_time(3)

    ends = [(await lab.run_of(event_id)).run.status for event_id in (person, machine, newer)]
    assert ends == ["Cancelled", "Completed", "Completed"]


async def test_singletons_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, build) as lab:
        first = await lab.send("rec/single-cancel", {"sessionKey": "a", "m": 1})
    async with running(path, build) as lab:
        await lab.send("rec/single-cancel", {"sessionKey": "a", "m": 2})

        assert (await lab.run_of(first)).run.status == "Cancelled"


async def test_sender_ids_count_once_a_day(tmp_path: Path) -> None:
    path, clock = tmp_path / "engine.db", ManualClock(datetime.now(UTC))
    async with running(path, build, clock=clock) as lab:
        await lab.send("rec/no-steps", id="m-1")
        await lab.send("rec/no-steps", id="m-1")
        await lab.send("rec/two-steps", id="m-1")
        assert len(await lab.runs_of("rec-no-steps")) == 1
        assert len(await lab.runs_of("rec-two-steps")) == 1, "an id belongs to its event's name"
    async with running(path, build, clock=clock) as lab:
        await lab.send("rec/no-steps", id="m-1")
        assert len(await lab.runs_of("rec-no-steps")) == 1, "also after a restart"
        clock.advance(timedelta(hours=24, seconds=1).total_seconds())
        await lab.send("rec/no-steps", id="m-1")
        assert len(await lab.runs_of("rec-no-steps")) == 2


async def test_a_future_start_survives_a_restart_and_can_be_cancelled(tmp_path: Path) -> None:
    path, clock = tmp_path / "engine.db", ManualClock(datetime.now(UTC))
    async with running(path, build, clock=clock) as lab:
        later = lab.engine.now_ms() + 60_000
        kept = await lab.send("rec/no-steps", ts=later)
        dropped = await lab.send("rec/no-steps", ts=later)
        await lab.engine.cancel((await lab.run_of(dropped)).run.id)
        assert (await lab.run_of(kept)).run.status == "Scheduled"
    async with running(path, build, clock=clock) as lab:
        await lab.pass_time(59, step_s=10)
        assert lab.calls_of("rec-no-steps") == []
        await lab.pass_time(2)
        assert (await lab.run_of(kept)).run.status == "Completed"
        assert (await lab.run_of(dropped)).run.status == "Cancelled"


async def test_run_ids_grow_although_the_clock_goes_back(tmp_path: Path) -> None:
    path, clock = tmp_path / "engine.db", ManualClock(datetime.now(UTC))
    async with running(path, build, clock=clock) as lab:
        await lab.send("rec/no-steps")
        clock.advance(-3_600)
        await lab.send("rec/no-steps")
        await lab.send("rec/two-steps")
    clock.advance(-3_600)
    async with running(path, build, clock=clock) as lab:
        await lab.send("rec/no-steps")
        runs = list(reversed(await lab.engine.runs()))

    created = [run.created_at for run in runs]
    assert created != sorted(created)
    assert len({run.id for run in runs}) == len(runs) >= 4
    assert runs[-1].function == "rec-no-steps", "the newest run has the greatest id"
    assert all(run.status == "Completed" for run in runs)


async def test_functions_that_leave_an_app_start_no_more(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"

    def fewer(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        return [function for function in build(client) if function.local_id != "no-steps"]

    async with running(path, build) as lab:
        await lab.send("rec/no-steps")
    async with running(path, fewer) as lab:
        assert await lab.engine.runs(event_id=await lab.send("rec/no-steps")) == []
    async with running(path, build) as lab:
        assert len(await lab.engine.runs(event_id=await lab.send("rec/no-steps"))) == 1
