"""A house with the seeded workspace, whose model and ears follow a script; and an engine that runs its goals."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.memory.workspace import Workspace
from tests.unit.house import House, make_house
from tests.unit.work.goal_house import Ears, Engine, Judge


@pytest.fixture
async def goal_house(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "house", template, delivery_folder=tmp_path / "phone")
    Workspace(built.harness.workspace.root).seed()
    judge = Judge()
    yield replace(built, harness=replace(built.harness, llm=judge, speech=Ears()), model=judge)
    await built.db.close()


@pytest.fixture
def engine(goal_house: House) -> Engine:
    return Engine(goal_house)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "inbox" / "The blue sky.mp3"
    path.parent.mkdir()
    path.write_bytes(b"sound")
    return path
