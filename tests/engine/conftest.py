"""One engine with the recorded functions per test."""

import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

with warnings.catch_warnings():
    # The SDK's models are written in a form that pydantic deprecates; warnings are errors here.
    warnings.simplefilter("ignore")
    import inngest.fast_api  # noqa: F401

from tests.engine.lab import Lab, running
from tests.engine.sample_functions import build


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with running(tmp_path / "engine.db", build) as lab:
        yield lab
