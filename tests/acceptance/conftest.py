"""What the acceptance tests share: the nursery and the fakes once, a service of its own for whoever asks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.nursery import Nursery
from tests.acceptance.rules import check_requests
from tests.acceptance.service import Service
from tests.acceptance.stage import Stage
from tests.fakes.process import FakeProcess

MakeService = Callable[..., Service]
LOG_LINES_SHOWN = 60


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The fakes of one module. Whatever its tests did, the model never saw what a provider would refuse."""
    with FakeProcess("telegram_server") as telegram, FakeProcess("model_server") as model:
        stage = Stage(telegram, model)
        yield stage
        check_requests([call["params"] for call in stage.asks()])
        stage.close()


@pytest.fixture
def make_service(
    nursery: Nursery, stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[MakeService]:
    """Make services (not started yet); their logs are shown when the test fails."""
    made: list[Service] = []

    def make(name: str = "home", *, speed: float = 1.0, lossy: bool = False, **settings: str) -> Service:
        service = Service(nursery, stage, tmp_path / name, speed=speed, lossy=lossy)
        service.settings = settings
        made.append(service)
        return service

    yield make
    for service in made:
        service.close()
        if service.errors.exists():
            print_log(service)


def print_log(service: Service) -> None:
    lines = service.errors.read_text().splitlines()[-LOG_LINES_SHOWN:]
    print(f"--- the log of {service.home.name}", *lines, sep="\n")  # noqa: T201 - pytest shows it for what failed
