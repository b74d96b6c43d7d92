"""MEMORY.md: replaced only if nobody changed it meanwhile, and never without keeping what it was before."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from app.files import write_atomic
from app.memory.workspace import OWN_FOLDER

NAME = "MEMORY.md"
KEPT_VERSIONS = 30


def read_memory(root: Path) -> str:
    """The memory of the workspace `root`; empty if there is none. Blocks."""
    path = root / NAME
    return path.read_text("utf-8", errors="replace") if path.is_file() else ""


def replace_memory(root: Path, known: str, content: str, now: datetime) -> bool:
    """Write `content` unless somebody changed the file since it was `known`; the old version is kept. Blocks."""
    if read_memory(root) != known:
        return False
    if known.strip():
        write_atomic(versions(root) / f"MEMORY-{now:%Y%m%dT%H%M%S%f}.md", known)
    write_atomic(root / NAME, content)
    return True


def versions(root: Path) -> Path:
    """The folder of earlier versions, whose names sort by time."""
    return root / OWN_FOLDER / "memory"


def change_versions(root: Path, change: Callable[[str], str]) -> None:
    """Change every earlier version. Blocks."""
    for path in versions(root).glob("MEMORY-*.md"):
        text = path.read_text("utf-8", errors="replace")
        if (changed := change(text)) != text:
            write_atomic(path, changed)


def prune_versions(root: Path) -> int:
    """Delete all earlier versions but the newest; how many. Blocks."""
    found = sorted(versions(root).glob("MEMORY-*.md"))
    old = found[: max(0, len(found) - KEPT_VERSIONS)]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)
