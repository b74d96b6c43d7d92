"""The look that begins a beat: what it names is done in steps of their own, and no part of it holds up another."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from app.agent.heartbeat import look
from app.agent.heartbeat.beat import CHORES, run_beat
from app.agent.heartbeat.look import BEAT, BLIND, look_around
from app.agent.heartbeat.tick import tick
from app.events import BeatDue
from app.tables import turns
from app.work import rounds
from tests.unit.house import RUN, DirectSteps, House, begin


def fail(*_: Any) -> Any:
    raise KeyError("a fault of this part")


def break_part(monkeypatch: pytest.MonkeyPatch, place: int, **changes: Any) -> Sequence[str]:
    """Let one part of the look be changed so; what is done unseen where it fails."""
    parts = list(BEAT)
    parts[place] = replace(parts[place], **changes)
    monkeypatch.setattr(look, "BEAT", tuple(parts))
    return parts[place].blind


def make_everything_due(house: House) -> None:
    (house.harness.daily_log.folder / "2026-01-04.md").write_text("- 12:00 likes tea\n")
    with house.tx() as tx:
        rounds.plan(tx, "tidy", house.clock.now(), house.clock.now())


async def steps_of(house: House) -> tuple[list[str], dict[str, Any]]:
    steps = DirectSteps(house)
    done = await run_beat(steps, house.harness, RUN)
    return steps.ids, done


async def test_a_beat_with_nothing_to_do_is_one_step(house: House) -> None:
    assert await steps_of(house) == (["look"], {"chores": []})


async def test_what_is_to_be_done_has_steps_of_its_own(house: House) -> None:
    await begin(house)
    house.clock.advance(120)
    make_everything_due(house)
    assert (await steps_of(house))[0] == ["look", "sweep", "distil", "tidy"]


@pytest.mark.parametrize("what", ["see", "judge"])
@pytest.mark.parametrize("place", range(len(BEAT)))
async def test_a_part_that_fails_holds_up_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch, place: int, what: str
) -> None:
    await begin(house)
    house.clock.advance(120)
    make_everything_due(house)
    blind = break_part(monkeypatch, place, **{what: fail})
    ids, done = await steps_of(house)
    own = {0: {"sweep"}, 1: set(), 2: {"distil"}, 3: {"tidy"}}[place]
    assert set(ids) == ({"look", "sweep", "distil", "tidy"} - own) | set(blind)
    assert done["kind"] == "crashed" and "a fault of this part" in done["message"], "and it is not hushed up"


async def test_a_quiet_beat_of_the_clock_is_noted_and_asks_for_nothing(house: House) -> None:
    assert await tick(house.harness, RUN) == {"quiet": True}
    with house.tx() as tx:
        noted = rounds.find(tx, "beat")
    assert noted is not None and noted.last_at == house.clock.now() and house.sender.events == []


async def test_where_there_is_something_to_do_a_beat_of_the_clock_takes_up_none_of_it(house: House) -> None:
    await begin(house)
    house.clock.advance(120)
    make_everything_due(house)
    before, sent = house.rows(select(rounds.rounds)), len(house.sender.events)
    assert await tick(house.harness, RUN) == await tick(house.harness, RUN) == {"quiet": False}
    assert house.rows(select(rounds.rounds)) == before
    asked = house.sender.events[sent:]
    assert [(event["name"], event["id"]) for event in asked] == [(BeatDue.name, f"beat:{RUN}")] * 2
    assert (await steps_of(house))[0] == ["look", "sweep", "distil", "tidy"], "the whole beat finds all of it"


@pytest.mark.parametrize("what", ["see", "judge"])
@pytest.mark.parametrize("place", range(len(BEAT)))
async def test_a_beat_of_the_clock_that_cannot_see_everything_asks_for_a_whole_one(
    house: House, monkeypatch: pytest.MonkeyPatch, place: int, what: str
) -> None:
    break_part(monkeypatch, place, **{what: fail})
    assert await tick(house.harness, RUN) == {"quiet": False}
    assert [event["name"] for event in house.sender.events] == [BeatDue.name]
    assert house.rows(select(rounds.rounds)) == []


async def test_where_the_engine_takes_no_events_the_beat_of_the_clock_is_tried_again(house: House) -> None:
    make_everything_due(house)
    house.sender.broken = True
    with pytest.raises(ConnectionError):
        await tick(house.harness, RUN)


async def test_where_the_database_is_away_the_engine_tries_the_look_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> Any:
        raise OperationalError("BEGIN", {}, sqlite3.OperationalError("disk I/O error"))

    monkeypatch.setattr(house.harness.db, "write", away)
    with pytest.raises(OperationalError):
        await look_around(house.harness, None)


async def test_a_look_that_crashed_holds_up_nothing_that_must_not_wait(house: House) -> None:
    class Crashing(DirectSteps):
        async def run(self, step_id: str, body: Any, *args: Any) -> Any:
            if step_id == "look":
                return {"kind": "crashed", "message": "KeyError"}
            return await super().run(step_id, body, *args)

    steps = Crashing(house)
    assert (await run_beat(steps, house.harness, RUN))["kind"] == "crashed"
    assert steps.ids == list(BLIND) and set(BLIND) < set(CHORES)


async def test_what_follows_a_turn_is_settled_though_the_look_failed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(house)
    monkeypatch.setattr(look, "AFTER_A_TURN", (replace(look.LOGS, see=fail),))
    steps = DirectSteps(house)
    assert (await run_beat(steps, house.harness, RUN, RUN))["kind"] == "crashed"
    assert steps.ids == ["look"] and house.scalar(select(turns.c.settled_at)) is not None
