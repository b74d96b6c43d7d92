"""The workspace: files that people and the agent edit, read into the system prompt."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from app.memory.skills import Skill, find_skills

SEED = Path(__file__).parent / "seed"
OWN_FOLDER = ".moab"
"""Made on the first start; artifacts of large tool outputs lie in it."""

MAX_FILE_CHARS = 20_000


@dataclass(frozen=True)
class Knowledge:
    """What the workspace tells the model: texts (empty where a file is missing) and the skills at hand."""

    soul: str
    user: str
    memory: str
    today: str
    skills: tuple[Skill, ...]


class Workspace:
    """A folder on disk. Its methods block; call them in a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def artifacts(self) -> Path:
        return self.root / OWN_FOLDER / "artifacts"

    @property
    def logs(self) -> Path:
        return self.root / "memory"

    def seed(self) -> bool:
        """On the first start put in the files that are missing; afterwards a deleted file stays deleted."""
        if (self.root / OWN_FOLDER).exists():
            return False
        for source in sorted(SEED.rglob("*.md")):
            target = self.root / source.relative_to(SEED)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        (self.root / OWN_FOLDER).mkdir(parents=True)
        return True

    def read(self, today: str) -> Knowledge:
        """Read what goes into the prompt; `today` is the date (YYYY-MM-DD) of the daily log."""
        return Knowledge(
            soul=self._text("SOUL.md"),
            user=self._text("USER.md"),
            memory=self._text("MEMORY.md"),
            today=self._text(f"memory/{today}.md"),
            skills=find_skills(self.root / "skills"),
        )

    def _text(self, name: str) -> str:
        path = self.root / name
        if not path.is_file():
            return ""
        text = path.read_text("utf-8", errors="replace")
        if len(text) <= MAX_FILE_CHARS:
            return text.strip()
        return text[:MAX_FILE_CHARS].rstrip() + f"\n[{name} goes on; read the file for the rest]"
