"""Every recording has its scenario, and docs/engine.md says of each what is compared."""

import re
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_DOCS = Path(__file__).parents[3] / "docs" / "engine.md"
_RECORDINGS = sorted(path.stem for path in (_HERE.parent / "recordings").glob("*.jsonl"))
_SCENARIOS = sorted(path for path in _HERE.glob("test_*.py") if path != Path(__file__))


@pytest.mark.parametrize("name", _RECORDINGS)
def test_a_recording_has_its_scenario(name: str) -> None:
    text = (_HERE / f"test_{name.replace('-', '_')}.py").read_text()

    assert re.search(rf'Scenario\(\s*"{name}"', text)
    assert "def test_inside_this_process(" in text
    assert "def test_behind_an_address(" in text


def test_the_table_names_each_scenario_once() -> None:
    rows = re.findall(r"^\| `[a-z-]+` \| `(test_\w+\.py)` \|", _DOCS.read_text(), re.MULTILINE)

    assert sorted(rows) == [path.name for path in _SCENARIOS]
    assert set(_RECORDINGS) <= {name.removeprefix("test_").removesuffix(".py").replace("_", "-") for name in rows}
