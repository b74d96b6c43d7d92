"""The workspace: files that people and the agent edit, read into the system prompt."""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.memory.skills import Skill, read_skills, skill_files

SEED = Path(__file__).parent / "seed"
OWN_FOLDER = ".moab"
"""Made on the first start; artifacts of large tool outputs lie in it."""

FILES = ("SOUL.md", "USER.md", "MEMORY.md")
MAX_FILE_CHARS = 20_000

log = logging.getLogger("moab.memory")


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
        self._read: tuple[tuple[Any, ...], Knowledge] | None = None

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
        for source in sorted(path for path in SEED.rglob("*") if path.suffix in (".md", ".yaml")):
            target = self.root / source.relative_to(SEED)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        (self.root / OWN_FOLDER).mkdir(parents=True)
        return True

    def read(self, today: str) -> Knowledge:
        """What goes into the prompt; `today` is the daily log's date (YYYY-MM-DD). Unchanged files are not read."""
        log = f"memory/{today}.md"
        skills = skill_files(self.root / "skills")
        seen = (today, *(_stamp(self.root / name) for name in (*FILES, log)), *((p, _stamp(p)) for p in skills))
        if self._read is None or self._read[0] != seen:
            soul, user, memory, notes = (self._text(name) for name in (*FILES, log))
            self._read = (seen, Knowledge(soul, user, memory, notes, read_skills(skills)))
        return self._read[1]

    def text_of(self, name: str) -> str | None:
        """A whole file, None if it is not there. Raises OSError where it cannot be read."""
        try:
            return (self.root / name).read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def _text(self, name: str) -> str:
        path = self.root / name
        if not path.is_file():
            return ""
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError as error:
            log.warning("%s cannot be read (%s); the model is shown nothing of it.", path, error.strerror)
            return ""
        if len(text) <= MAX_FILE_CHARS:
            return text.strip()
        return text[:MAX_FILE_CHARS].rstrip() + f"\n[{name} goes on; read the file for the rest]"


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
