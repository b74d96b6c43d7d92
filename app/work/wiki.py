"""Pages of a wiki: an index that is the same for the same pages, and lines in pages that belong to one goal. Pure."""

import re
from collections.abc import Iterable, Mapping

_TITLE = re.compile(r'^title:\s*"?(.*?)"?\s*$', re.MULTILINE)
_HEADING = re.compile(r"^#\s+(.+?)\s*$", re.MULTILINE)


def title_of(text: str, fallback: str) -> str:
    """A page's title: of its front matter, else its first heading."""
    head = text.split("\n---", 1)[0] if text.startswith("---\n") else ""
    found = (head and _TITLE.search(head)) or _HEADING.search(text)
    return found[1] if found and found[1] else fallback


def index_of(pages: Mapping[str, str]) -> str:
    """The index of pages (title by path relative to the index): a section a folder, the newest of dated pages first."""
    folders: dict[str, list[str]] = {}
    for path in pages:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    lines = ["# Index", ""]
    for folder in sorted(folders):
        lines += [f"## {folder or 'Pages'}", ""]
        lines += [f"- [{_plain(pages[path])}]({path.replace(' ', '%20')})" for path in _ordered(folders[folder])]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _ordered(paths: Iterable[str]) -> list[str]:
    names = sorted(paths)
    dated = [path for path in names if re.match(r"\d{4}-\d{2}-\d{2}", path.rpartition("/")[2])]
    return [*reversed(dated), *(path for path in names if path not in set(dated))]


def _plain(title: str) -> str:
    return re.sub(r"[\[\]\s]+", " ", title).strip()


def mark_of(goal_id: str) -> str:
    """What stands at the end of a line that belongs to a goal, unseen by readers."""
    return f"<!-- {goal_id} -->"


def with_line(page: str, title: str, line: str, goal_id: str) -> str:
    """`page` with the goal's line: in the place of its old one, else at the end; a new page has a heading."""
    mark = mark_of(goal_id)
    fresh = f"{' '.join(line.split())} {mark}"
    lines = page.rstrip("\n").split("\n") if page.strip() else [f"# {title}", ""]
    if any(old.endswith(mark) for old in lines):
        return "\n".join(fresh if old.endswith(mark) else old for old in lines) + "\n"
    return "\n".join([*lines, fresh]) + "\n"


def without_line(page: str, goal_id: str) -> str:
    """`page` without the goal's line."""
    return "".join(line for line in page.splitlines(keepends=True) if not line.rstrip().endswith(mark_of(goal_id)))


def is_empty(page: str) -> bool:
    """Whether nothing but a heading is left of a page."""
    return not [line for line in page.splitlines() if line.strip() and not line.startswith("# ")]
