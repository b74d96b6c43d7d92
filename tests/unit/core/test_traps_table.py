"""The tables of docs/traps.md: each row names a test, and every test they name is there."""

import re

import pytest

from tests.unit.core.rules import ROOT

TABLES = (ROOT / "docs" / "traps.md").read_text("utf-8")
ROWS = [line for line in TABLES.splitlines() if line.startswith("| ") and not line.startswith("| The trap")]


def test_every_row_names_a_test() -> None:
    assert len(ROWS) >= 27 and [row for row in ROWS if "::test_" not in row] == []


@pytest.mark.parametrize(("file", "name"), re.findall(r"`(\w+\.py)::(\w+)`", TABLES))
def test_the_test_is_there(file: str, name: str) -> None:
    found = [path.read_text("utf-8") for path in (ROOT / "tests").rglob(file)]
    assert any(f"def {name}(" in text for text in found)
