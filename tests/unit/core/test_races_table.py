"""The table of docs/races.md has all its rows, and every test it names is there."""

import re

from tests.unit.core.rules import ROOT

TABLE = (ROOT / "docs" / "races.md").read_text("utf-8")


def test_every_row_names_a_test() -> None:
    rows = [line for line in TABLE.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, 25))
    assert [row for row in rows if "::test_" not in row] == []


def test_every_named_test_is_there() -> None:
    named = re.findall(r"`(\w+\.py)::(\w+)`", TABLE)
    files = {path.name: path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in files.get(file, "")]
    assert named and missing == []
