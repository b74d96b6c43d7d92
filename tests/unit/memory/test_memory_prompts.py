"""The system prompt: what is known, in an order that keeps its beginning stable."""

from app.agent.context.prompts import DEFAULT_SOUL, compact_prompt, system_prompt
from app.memory.skills import Skill
from app.memory.workspace import Knowledge

FULL = Knowledge("I am a pirate.", "Ann.", "Likes tea.", "- 12:00 coffee", (Skill("report", "How.", "skills/r/S.md"),))
EMPTY = Knowledge("", "", "", "", ())


def prompt(knowledge: Knowledge, today: str = "2026-01-05") -> str:
    return system_prompt(knowledge, name="Moab", today=today, zone="Europe/Paris")


def test_the_sections_come_from_stable_to_fleeting() -> None:
    parts = [
        "I am a pirate.",
        "# How you work",
        "# Skills",
        "# About the user",
        "# Long-term memory",
        "# Notes of today",
    ]
    places = [prompt(FULL).index(part) for part in parts]
    assert places == sorted(places) and places[0] == 0
    assert prompt(FULL).endswith("Today is 2026-01-05 (Europe/Paris).")


def test_what_is_not_there_has_no_heading() -> None:
    text = prompt(EMPTY)
    assert text.startswith(DEFAULT_SOUL) and text.count("\n# ") == 1 and "# How you work" in text


def test_only_the_end_changes_overnight() -> None:
    one, two = prompt(FULL), prompt(FULL, "2026-01-06")
    same = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    assert same > one.index("Likes tea.")


def test_a_skill_is_named_with_its_file() -> None:
    assert "- report: How. (`skills/r/S.md`)" in prompt(FULL)


def test_a_tiny_model_gets_a_line_or_two() -> None:
    assert len(compact_prompt("Moab")) < 300
