"""Watched folders in a house: each new file becomes one goal, and nothing becomes two."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.agent.goals import folders
from app.agent.goals.folders import scan_folders
from app.agent.goals.orders import list_goals
from app.agent.heartbeat.look import look_around
from app.config import LOCAL_MODEL
from app.errors import BadInput
from app.goal_tables import goals
from app.work import watcher
from app.work.life import Priority
from tests.unit.house import House
from tests.unit.work.goal_house import Engine, files_below, make, put_pipeline, told

WORDS = "words that were said, long enough to be a talk"


@pytest.fixture
def inbox(goal_house: House) -> Path:
    """The folder of transcripts; the clock is at noon of the day after its files are written."""
    noon = datetime.now(UTC).replace(hour=12, minute=0, second=0) + timedelta(days=1)
    goal_house.clock.advance((noon - goal_house.clock.now()).total_seconds())
    path = goal_house.harness.workspace.root / "inbox" / "transcripts"
    path.mkdir(parents=True)
    return path


async def lives(house: House) -> list[str]:
    return sorted(goal["life"] for goal in await house.db.read(list_goals, 50))


async def test_a_file_becomes_one_goal(goal_house: House, inbox: Path) -> None:
    (inbox / "talk.txt").write_text(WORDS)
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 1}
    assert await scan_folders(goal_house.harness) == {"new": 0, "goals": 0}
    await Engine(goal_house).run()
    assert await scan_folders(goal_house.harness) == {"new": 0, "goals": 0}, "what lies in done/ is nothing new"
    assert await lives(goal_house) == ["COMPLETED"] and len(told(goal_house)) == 1
    assert files_below(inbox) == {"done/talk.txt": WORDS.encode()}


async def test_only_what_lies_in_a_watched_folder_moves(goal_house: House, inbox: Path, tmp_path: Path) -> None:
    """A file that a person names stays where it is, unless it would lie in the way of what is dropped."""
    mine, dropped = tmp_path / "mine.txt", inbox / "dropped.txt"
    mine.write_text(WORDS)
    dropped.write_text(f"{WORDS} again")
    for source in (mine, dropped):
        await make(goal_house, "podcast_from_transcript", source)
    await Engine(goal_house).run()
    assert await lives(goal_house) == ["COMPLETED"] * 2
    assert mine.is_file() and files_below(inbox) == {"done/dropped.txt": f"{WORDS} again".encode()}


async def test_copies_and_new_names_do_nothing(goal_house: House, inbox: Path) -> None:
    (inbox / "a.txt").write_text(WORDS)
    await scan_folders(goal_house.harness)
    (inbox / "a.txt").rename(inbox / "b.txt")
    (inbox / "c.txt").write_text(WORDS)
    assert await scan_folders(goal_house.harness) == {"new": 2, "goals": 0}
    (inbox / "c.txt").write_text(WORDS + " and more")
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 1}, "another content is another goal"
    assert len(await lives(goal_house)) == 2


async def test_a_file_that_is_written_to_waits(goal_house: House, inbox: Path) -> None:
    goal_house.clock.advance((datetime.now(UTC) - goal_house.clock.now()).total_seconds())
    (inbox / "talk.txt").write_text(WORDS)
    assert await scan_folders(goal_house.harness) == {"new": 0, "goals": 0}
    goal_house.clock.advance(15)
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 1}


async def test_an_empty_file_fails_once_with_its_reason(goal_house: House, inbox: Path) -> None:
    (inbox / "empty.txt").touch()
    for _ in range(3):
        await scan_folders(goal_house.harness)
    assert await lives(goal_house) == ["FAILED_PERMANENT"]
    assert len(told(goal_house)) == 1 and "the file is empty" in told(goal_house)[0]


async def test_an_unreadable_file_fails_once_with_its_reason(
    goal_house: House, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inbox / "secret.txt").write_text(WORDS)
    (inbox / "secret.txt").chmod(0)
    if os.geteuid() == 0:  # who may read everything

        def refuse(path: Path) -> str:
            raise PermissionError(13, "Permission denied", path)

        monkeypatch.setattr(watcher, "digest_of", refuse)
    for _ in range(3):
        await scan_folders(goal_house.harness)
    assert await lives(goal_house) == ["FAILED_PERMANENT"]
    assert len(told(goal_house)) == 1 and "cannot be read (Permission denied)" in told(goal_house)[0]


async def test_a_broken_file_fails_once_with_its_reason(goal_house: House, inbox: Path) -> None:
    (inbox / "broken.txt").write_bytes(b"\xff\xfe\x00 no text")
    engine = Engine(goal_house)
    for _ in range(3):
        await scan_folders(goal_house.harness)
        await engine.run()
    assert await lives(goal_house) == ["FAILED_PERMANENT"] and engine.steps == ["summary"]
    assert len(told(goal_house)) == 1 and "it is not text" in told(goal_house)[0]
    assert (inbox / "broken.txt").exists()
    assert "files" not in [chore["step"] for chore in (await look_around(goal_house.harness, None))["chores"]]


async def test_a_folder_has_its_pattern_pipeline_and_priority(goal_house: House, inbox: Path) -> None:
    root = goal_house.harness.workspace.root
    (root / "pipelines" / "other.yaml").write_text("steps:\n  - {id: a, action: notify, content: '{title}'}\n")
    folder = "path: inbox/transcripts, pattern: '*.note', pipeline: other, priority: batch"
    (root / "watch.yaml").write_text("folders:\n  - {" + folder + "}\n")
    (inbox / "a.note").write_text(WORDS)
    (inbox / "b.txt").write_text(WORDS)
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 1}
    (row,) = goal_house.rows(goals.select())
    assert (row.pipeline, row.rank, row.facts["file"]) == ("other", Priority.BATCH.rank, "a.note")


async def test_a_kill_before_the_file_is_noted_makes_no_second_goal(
    goal_house: House, inbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inbox / "talk.txt").write_text(WORDS)

    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        raise Killed(name)

    monkeypatch.setattr(folders, "reach", die)
    with pytest.raises(Killed):
        await scan_folders(goal_house.harness)
    monkeypatch.undo()
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 0}
    await Engine(goal_house).run()
    assert await lives(goal_house) == ["COMPLETED"] and len(told(goal_house)) == 1


async def test_a_pipeline_with_a_fault_stops_its_own_folder_alone(
    goal_house: House, inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What somebody breaks in one pipeline must not keep the files of all others waiting."""
    root = goal_house.harness.workspace.root
    put_pipeline(goal_house, "mine", "steps: nonsense")
    watch = (root / "watch.yaml").read_text()
    (root / "watch.yaml").write_text(watch + "  - {path: inbox/mine, pattern: '*.txt', pipeline: mine}\n")
    (root / "inbox" / "mine").mkdir(parents=True)
    for folder in ("transcripts", "mine"):
        (root / "inbox" / folder / f"{folder}.txt").write_text(f"{WORDS} {folder}")
    goal_house.clock.advance(366 * 86_400)
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 1}
    assert sum("Not every folder is watched" in record.message for record in caplog.records) == 1
    put_pipeline(goal_house, "mine", "steps:\n  - {id: a, action: notify, content: 'x'}\n")
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 1}


async def test_a_fault_in_watch_yaml_is_logged_once_and_watches_nothing(
    goal_house: House, inbox: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (inbox / "talk.txt").write_text(WORDS)
    (goal_house.harness.workspace.root / "watch.yaml").write_text("folders: nonsense")
    for _ in range(3):
        assert await scan_folders(goal_house.harness) == {"new": 0, "goals": 0}
    assert sum("No folder is watched" in record.message for record in caplog.records) == 1


async def test_with_the_local_model_alone_what_is_dropped_waits_and_what_is_asked_for_is_refused(
    goal_house: House, inbox: Path
) -> None:
    """So small a model would write its own prompt into the wiki."""
    (inbox / "talk.txt").write_text(WORDS)
    settings = goal_house.harness.settings.model_copy(update={"agent_model": LOCAL_MODEL})
    keyless = replace(goal_house, harness=replace(goal_house.harness, settings=settings))
    assert await scan_folders(keyless.harness) == {"new": 0, "goals": 0}
    with pytest.raises(BadInput, match=r"podcast_from_transcript needs a real model.*set AGENT_MODEL"):
        await make(keyless, "podcast_from_transcript", inbox / "talk.txt")
    put_pipeline(keyless, "plain", "steps:\n  - {id: a, action: write, output: a.txt, content: x}")
    assert (await make(keyless, "plain")).fresh, "without a step for a model there is nothing to wait for"
    assert await scan_folders(goal_house.harness) == {"new": 1, "goals": 1}, "it was not forgotten"
