"""What a service that goes on for months does with its memory."""

import gc
from collections.abc import Iterator

import pytest

from app import main
from app.config import Settings


@pytest.fixture
def as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def test_a_service_looks_for_garbage_seldom_and_not_in_what_it_imported(
    as_before: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, bool]] = []

    async def served(settings: Settings) -> None:
        found.append((gc.get_threshold()[0], gc.get_freeze_count() > 0))

    monkeypatch.setattr(main, "_serve", served)
    main.serve(Settings())
    assert found == [(main.GARBAGE_EVERY, True)]
