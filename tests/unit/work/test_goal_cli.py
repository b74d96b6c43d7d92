"""`moab goals` and `moab pipeline` as they are typed: begun, waited for, listed, shown, tried again, ended, checked."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from app.web.goals import goals_router
from tests.unit.house import House
from tests.unit.work.goal_house import Engine, put_pipeline
from tests.unit.work.typed import Moab, typing


@pytest.fixture
async def moab(goal_house: House, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Moab]:
    async with typing(goal_house, monkeypatch, goals_router(goal_house.harness)) as run:
        yield run


async def typed(moab: Moab, *words: str) -> str:
    done = await moab(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


async def begun(moab: Moab, *words: str) -> dict[str, Any]:
    return dict(json.loads(await typed(moab, "pipeline", "run", *words, "--json")))


async def meanwhile(engine: Engine, waiting: "asyncio.Task[Result]") -> Result:
    """Let goals run until the command has ended."""
    while not waiting.done():
        await engine.run()
        await asyncio.wait({waiting}, timeout=0.01)
    return waiting.result()


async def test_a_file_goes_through_a_pipeline_and_is_waited_for(
    moab: Moab, goal_house: House, engine: Engine, recording: Path
) -> None:
    waiting = asyncio.create_task(moab("pipeline", "run", "podcast_from_audio", str(recording), "--wait"))
    done = await meanwhile(engine, waiting)
    assert done.exit_code == 0, done.output
    assert "COMPLETED" in done.stdout and "wiki/raw/2026-01-05-the-blue-sky.md" in done.stdout
    again = await moab("pipeline", "run", "podcast_from_audio", str(recording))
    assert again.exit_code == 0 and "went through podcast_from_audio before; --again sends it once more" in again.stderr
    fresh = await begun(moab, "podcast_from_audio", str(recording), "--again", "--title", "Once more")
    assert (fresh["title"], fresh["life"]) == ("Once more", "CREATED")


async def test_one_that_fails_ends_the_wait_with_exit_code_1(moab: Moab, goal_house: House, engine: Engine) -> None:
    put_pipeline(goal_house, "demo", "steps:\n  - {id: a, action: write, output: ../a.txt, content: x}")
    waiting = asyncio.create_task(moab("pipeline", "run", "demo", "--wait"))
    done = await meanwhile(engine, waiting)
    assert done.exit_code == 1 and "FAILED_PERMANENT" in done.stdout and "leads outside" in done.stdout
    (goal,) = json.loads(await typed(moab, "goals", "list", "--json"))["goals"]
    assert await typed(moab, "goals", "retry", goal["id"]) == f"{goal['id']} is tried again.\n"
    assert json.loads(await typed(moab, "goals", "show", goal["id"], "--json"))["life"] != "FAILED_PERMANENT"


async def test_goals_are_listed_shown_and_cancelled(moab: Moab, recording: Path) -> None:
    assert await typed(moab, "goals") == "No goals.\n"
    goal = await begun(moab, "podcast_from_audio", str(recording))
    assert (await typed(moab, "goals")).splitlines()[1].split()[:2] == [goal["id"], "CREATED"]
    page = await typed(moab, "goals", "show", goal["id"])
    assert "The blue sky" in page and "transcribe" in page and "notify" in page
    assert await typed(moab, "goals", "cancel", goal["id"]) == f"{goal['id']} is cancelled.\n"
    assert json.loads(await typed(moab, "goals", "list", "--open", "--json")) == {"goals": []}
    assert "CANCELLED" in await typed(moab, "goals", "list", "--limit", "1")


async def test_pipelines_are_listed_with_what_is_wrong_with_others(moab: Moab, goal_house: House) -> None:
    put_pipeline(goal_house, "broken", "steps: nonsense")
    page = await typed(moab, "pipeline", "list")
    assert "podcast_from_audio" in page and "Refused: pipelines/broken.yaml: steps: accepted is a list" in page
    found = json.loads(await typed(moab, "pipeline", "list", "--json"))
    assert [one["name"] for one in found["pipelines"]] == ["podcast_from_audio", "podcast_from_transcript"]


async def test_a_pipelines_file_is_checked(moab: Moab, tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text("steps:\n  - {id: a, action: write, output: a.txt, content: x}")
    assert await typed(moab, "pipeline", "check", str(file)) == "It is a valid pipeline: a.\n"
    file.write_text("steps:\n  - {id: a, action: fly}")
    done = await moab("pipeline", "check", str(file))
    assert done.exit_code == 1 and "step a: action: there is no action 'fly'; accepted:" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("goals", "show", "gnone"), "There is no goal gnone."),
        (("goals", "retry", "gnone"), "There is no goal gnone."),
        (("goals", "cancel", "gnone"), "There is no goal gnone."),
        (("pipeline", "run", "nothing"), "There is no pipeline 'nothing'; there are: podcast_from_audio"),
        (("pipeline", "run", "podcast_from_audio"), "The pipeline podcast_from_audio begins with a file; name one."),
        (("pipeline", "run", "podcast_from_audio", "/no/such.mp3"), "There is no file /no/such.mp3."),
        (("pipeline", "check", "/no/such.yaml"), "There is no file /no/such.yaml."),
    ],
)
async def test_what_is_refused_says_why(moab: Moab, words: tuple[str, ...], sentence: str) -> None:
    done = await moab(*words)
    assert done.exit_code == 1 and sentence in str(done.exception)
