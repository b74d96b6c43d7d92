"""What the scenarios share: one stage for all of them."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.engine.scenarios.inside")

from tests.engine.lab import Lab  # noqa: E402
from tests.engine.scenarios.address import engine_url  # noqa: E402
from tests.engine.scenarios.stage import Stage  # noqa: E402


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    chosen = {item.module.SCENARIO.name: item.module.SCENARIO for item in request.session.items
              if isinstance(item, pytest.Function) and "played" in item.fixturenames}  # fmt: skip
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    shared = tmp_path_factory.getbasetemp().parent / f"scenarios-{run}" if run else tmp_path_factory.mktemp("scenarios")
    stage = Stage(shared, list(chosen.values()))
    stage.begin()
    yield stage
    stage.end()


@pytest.fixture(autouse=True)
def _stage_begins_first(stage: Stage) -> None:
    """What takes real time goes on while others are played inside this process."""


@pytest.fixture
def inside_only() -> None:
    if engine_url():
        pytest.skip("Inside this process only our own engine can be played.")


@pytest.fixture
def lab(inside_only: None, lab: Lab) -> Lab:
    """The engine inside this process."""
    return lab


@pytest.fixture
def played(request: pytest.FixtureRequest, stage: Stage) -> Any:
    """What the module's scenario told, played against a server behind an address."""
    scenario = request.module.SCENARIO
    if scenario.slow and not engine_url():
        pytest.skip("It waits for half a minute or more: in real time only with ENGINE_URL, on a manual clock always.")
    return stage.found(scenario)
