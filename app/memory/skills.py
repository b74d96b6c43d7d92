"""Skills: folders with a SKILL.md whose head says when to use it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_SKILLS = 50


@dataclass(frozen=True)
class Skill:
    """A procedure the model can read: its name, when to use it, and the path of its file in the workspace."""

    name: str
    description: str
    path: str


def skill_files(folder: Path) -> list[Path]:
    """The SKILL.md files in the folders of `folder`, by name."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
    return [path for name in names if (path := folder / name / "SKILL.md").is_file()][:MAX_SKILLS]


def read_skills(files: Sequence[Path]) -> tuple[Skill, ...]:
    """What their heads say; a file without a head is listed by its folder's name."""
    return tuple(_skill(path) for path in files)


def _skill(path: Path) -> Skill:
    head = _head(path.read_text("utf-8", errors="replace"))
    relative = path.relative_to(path.parents[2]).as_posix()
    return Skill(head.get("name") or path.parent.name, head.get("description", "")[:500], relative)


def _head(text: str) -> dict[str, str]:
    if not text.startswith("---\n"):
        return {}
    lines = text[4:].partition("\n---")[0].splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}
