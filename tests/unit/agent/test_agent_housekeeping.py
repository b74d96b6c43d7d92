"""Order in the house: old copies, outputs and versions go, once a day; a beat without work does nothing."""

import os
from datetime import timedelta
from pathlib import Path

from sqlalchemy import insert

from app.agent.heartbeat.beat import CHORES
from app.agent.heartbeat.look import TIDY_EVERY, look_around
from app.memory.memory_file import KEPT_VERSIONS, replace_memory, versions
from app.tables import backups, rounds
from app.work.rounds import find, note, take
from tests.unit.house import RUN, House, begin

DAY_S = 86_400


def aged(house: House, path: Path, days: float) -> Path:
    """A file of so many days ago by the house's clock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    then = house.clock.now().timestamp() - days * DAY_S
    for one in (path, path.parent):
        os.utime(one, (then, then))
    return path


async def test_what_nobody_will_look_for_any_more_is_deleted(house: House) -> None:
    flow = await begin(house)
    root = house.harness.workspace.root
    own = root / ".moab"
    old, young = aged(house, own / "backups/R1/a", 15), aged(house, own / "backups/R2/a", 13)
    left, being_written = aged(house, root / "wiki/raw/.moab-1a.tmp", 1.5), aged(house, root / "wiki/.moab-2b.tmp", 0.5)
    output, fresh = aged(house, own / "artifacts/r.txt", 31), aged(house, own / "artifacts/s.txt", 29)
    for number in range(KEPT_VERSIONS + 2):
        (house.harness.workspace.root / "MEMORY.md").write_text(str(number))
        assert replace_memory(house.harness.workspace.root, str(number), "next", house.clock.now())
        house.clock.advance(1)
    row = {"session_id": flow.session_id, "run_id": RUN, "kept": "x"}
    with house.tx() as tx:
        for days in (13, 15):
            created = house.clock.now() - timedelta(days=days)
            tx.execute(insert(backups).values(row | {"path": f"p{days}", "created_at": created}))
    assert await CHORES["tidy"](house.harness, RUN, "") == {
        "backups": 1,
        "artifacts": 1,
        "memories": 2,
        "drafts": 1,
    }
    assert [path.exists() for path in (old.parent, young, output, fresh)] == [False, True, False, True]
    assert [path.exists() for path in (left, being_written)] == [False, True]
    assert [row.path for row in house.rows(backups.select())] == ["p13"]
    kept = sorted(versions(house.harness.workspace.root).iterdir())
    assert len(kept) == KEPT_VERSIONS and kept[0].read_text() == "2"


async def test_everybodys_folder_is_kept_in_order(house: House) -> None:
    hers = house.harness.at("test-5").workspace.root
    old, young = aged(house, hers / ".moab/backups/R1/a", 15), aged(house, hers / ".moab/artifacts/s.txt", 29)
    output = aged(house, hers / ".moab/artifacts/r.txt", 31)
    done = await CHORES["tidy"](house.harness, RUN, "")
    assert (done["backups"], done["artifacts"]) == (1, 1)
    assert [path.exists() for path in (old.parent, young, output)] == [False, True, False]


async def test_tidying_is_once_a_day_and_not_on_the_first(house: House) -> None:
    assert await look_around(house.harness, None) == {"chores": []}
    house.clock.advance(TIDY_EVERY.total_seconds())
    assert await look_around(house.harness, None) == {"chores": [{"step": "tidy", "of": ""}]}
    assert await look_around(house.harness, None) == {"chores": []}


async def test_a_beat_says_when_it_was(house: House) -> None:
    house.clock.advance(600)
    await look_around(house.harness, None)
    with house.tx() as tx:
        beat = find(tx, "beat")
    assert beat is not None and beat.last_at == house.clock.now()


async def test_what_follows_a_turn_is_no_beat(house: House) -> None:
    await begin(house)
    await look_around(house.harness, RUN)
    assert house.rows(rounds.select()) == []


def test_a_round_is_taken_by_one_when_it_is_due(house: House) -> None:
    now, hour = house.clock.now(), timedelta(hours=1)
    with house.tx() as tx:
        assert take(tx, "look", now, now + hour) and not take(tx, "look", now, now + hour)
        assert not take(tx, "look", now + hour - timedelta(seconds=1), now + 2 * hour)
        assert take(tx, "look", now + hour, now + 2 * hour)
        note(tx, "look", now + hour, None, failures=3, note="stopped")
        assert not take(tx, "look", now + 99 * hour, now)
        found = find(tx, "look")
    assert found is not None and (found.failures, found.note, found.next_at) == (3, "stopped", None)
