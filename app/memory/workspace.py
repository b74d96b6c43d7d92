"""The workspace: files that people and the agent edit, read into the system prompt."""

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.memory.skills import Skill, read_skills, skill_files

SEED = Path(__file__).parent / "seed"
OWN_FOLDER = ".moab"
"""Made on the first start; artifacts of large tool outputs lie in it."""

FILES = ("SOUL.md", "USER.md", "MEMORY.md")
SHARED = ("SOUL.md",)
"""What everybody's workspace has from the whole."""
PEOPLE = "people"
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
    """A folder on disk. Its methods block, but for `of`; call them in a thread.

    The operator's is the whole of it. Everybody else, and every group, has one of his own inside, with files and memory
    that nobody else is shown; the character and the skills are those of the whole. `place` is where it lies.
    """

    def __init__(self, root: Path, shared: "Workspace | None" = None, place: str = "") -> None:
        self.root = root
        self.place = place
        self._shared = shared
        self._read: tuple[tuple[Any, ...], Knowledge] | None = None
        self._others: dict[str, Workspace] = {}

    def of(self, principal: str) -> "Workspace":
        """The workspace of one person or group, by the name of its folder. Touches no disk."""
        if principal not in self._others:
            place = f"{OWN_FOLDER}/{PEOPLE}/{principal}"
            self._others[principal] = Workspace(self.root / place, self, place)
        return self._others[principal]

    def principals(self) -> list[str]:
        """The names of all people and groups that have a workspace here."""
        folder = self.root / OWN_FOLDER / PEOPLE
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    def move_principal(self, old: str, new: str) -> None:
        """Give the workspace of a person or group another name. Where both are there, what the new one has stays."""
        before, after = self.of(old).root, self.of(new).root
        if not before.is_dir():
            return
        for path in sorted(before.rglob("*")):
            target = after / path.relative_to(before)
            if path.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
        shutil.rmtree(before)

    def prepare(self) -> None:
        """Make a person's workspace if it is not there, and bring its skills up to date."""
        if self._shared is None:
            return
        self.logs.mkdir(parents=True, exist_ok=True)
        skills = self._shared.root / "skills"
        if skills.is_dir():
            shutil.copytree(skills, self.root / "skills", dirs_exist_ok=True, copy_function=_copy_newer)

    def from_whole(self, path: Path | str) -> str:
        """A path in here as seen from the whole, where channels look for files. Touches no disk."""
        return f"{self.place}/{path}" if self.place else str(path)

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
        seen = (today, *(_stamp(self._path(name)) for name in (*FILES, log)), *((p, _stamp(p)) for p in skills))
        if self._read is None or self._read[0] != seen:
            soul, user, memory, notes = (self._text(name) for name in (*FILES, log))
            self._read = (seen, Knowledge(soul, user, memory, notes, read_skills(skills)))
        return self._read[1]

    def _path(self, name: str) -> Path:
        return (self._shared.root if self._shared is not None and name in SHARED else self.root) / name

    def text_of(self, name: str) -> str | None:
        """A whole file, None if it is not there. Raises OSError where it cannot be read."""
        try:
            return (self.root / name).read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def _text(self, name: str) -> str:
        path = self._path(name)
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


def _copy_newer(source: str, target: str) -> str:
    if not os.path.exists(target) or os.stat(source).st_mtime_ns > os.stat(target).st_mtime_ns:
        shutil.copy2(source, target)
    return target


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
