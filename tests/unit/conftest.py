"""A house for the tests of the rooms, and an environment without the developer's own settings."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from app.sessions import people
from tests.unit.house import House, make_house, make_template, scrub

settings.register_profile("house", deadline=None)
settings.load_profile("house")
"""How long an example takes says how busy the machine is, and nothing of the code."""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template") / "moab.db")


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    scrub(monkeypatch)


@pytest.fixture(autouse=True)
def test_chat_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever speaks in the test channel runs the service; tests of whose memory it is say otherwise."""
    monkeypatch.setattr(people, "OPERATORS", (*people.OPERATORS, "test"))


@pytest.fixture
async def house(tmp_path: Path, template: Path, clean_environment: None) -> AsyncIterator[House]:
    built = make_house(tmp_path / "house", template)
    yield built
    await built.db.close()
