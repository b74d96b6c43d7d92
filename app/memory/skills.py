"""Skills: folders with a SKILL.md whose head says when to use it."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_SKILLS = 50
HEAD_BYTES = 8_192
_FOLDED = {">", "|", ">-", "|-", ">+", "|+"}

log = logging.getLogger("moab.memory")


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
    """What their heads say; a file without a head is listed by its folder's name, one that cannot be read is not."""
    return tuple(skill for path in files if (skill := _skill(path)) is not None)


def _skill(path: Path) -> Skill | None:
    try:
        with path.open("rb") as file:
            text = file.read(HEAD_BYTES).decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        log.warning("The skill %s cannot be read (%s); the model is not told of it.", path, error.strerror)
        return None
    head = _head(text)
    relative = path.relative_to(path.parents[2]).as_posix()
    return Skill(head.get("name") or path.parent.name, head.get("description", "")[:500], relative)


def _head(text: str) -> dict[str, str]:
    """The pairs of the head: `key: value`, quoted or not, or with the value indented below (`key: >`)."""
    head, closed, _ = text.removeprefix("---\n").partition("\n---")
    if not text.startswith("---\n") or not closed:
        return {}
    pairs: dict[str, str] = {}
    key = ""
    for line in head.split("\n"):
        if line[:1].isspace():
            pairs[key] = f"{pairs.get(key, '')} {line.strip()}".strip()
        elif ":" in line:
            key, _, value = (part.strip() for part in line.partition(":"))
            pairs[key] = "" if value in _FOLDED else value
    return {key: _unquoted(value) for key, value in pairs.items()}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
