"""`.env.example` and the settings tell the same story."""

import re
from pathlib import Path

from pydantic import AliasChoices
from pydantic_core import PydanticUndefined

from app.config import MODEL_FOR_KEY, Settings

ROOT = Path(__file__).resolve().parents[3]


def documented() -> dict[str, str]:
    """Each variable in the file with the value shown."""
    text = (ROOT / ".env.example").read_text("utf-8")
    pairs: list[tuple[str, str]] = re.findall(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE)
    assert len(pairs) == len(dict(pairs)), "a variable is there twice"
    return dict(pairs)


def settings() -> dict[str, object]:
    """Each variable that Settings reads with its default."""
    found: dict[str, object] = {}
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        first = alias.choices[0] if isinstance(alias, AliasChoices) else alias or name
        assert isinstance(first, str)
        found[first.upper()] = field.default
    return found


def test_every_setting_is_documented_and_nothing_else() -> None:
    assert set(documented()) == set(settings()) | set(MODEL_FOR_KEY)


def test_the_values_shown_are_the_defaults() -> None:
    shown = documented()
    for name, default in settings().items():
        text = "" if default in (None, (), PydanticUndefined) else str(default)
        assert shown[name] == (text.lower() if isinstance(default, bool) else text), name


def test_it_changes_nothing_when_copied() -> None:
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    assert all(line.startswith("#") or not line for line in lines)


def test_the_variables_of_the_readme_exist() -> None:
    named = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+|TIMEZONE)`", (ROOT / "README.md").read_text("utf-8")))
    assert named and {one for one in named if not one.startswith("TEST_")} <= set(documented())
