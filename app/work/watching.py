"""What workspace/watch.yaml says: folders whose new files become goals. Pure."""

import functools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import BadInput
from app.work.life import Priority
from app.work.pipeline import DURATION, seconds
from app.work.yaml_file import load

FILE = "watch.yaml"
SETTLE_S = 10
MAX_FOLDERS = 50
FIELDS = ("path", "pattern", "pipeline", "priority")
FORM = "folders: a list of path, pattern, pipeline and priority (file or batch); settle: such as 10s"


@dataclass(frozen=True)
class Watch:
    """One folder: which of its files (`patterns`, as in `*.mp3`) become goals of which pipeline."""

    path: Path
    patterns: tuple[str, ...]
    pipeline: str
    priority: Priority


@dataclass(frozen=True)
class Watching:
    """All folders that can be watched, and a line for each fault of the others.

    A file that changed less than `settle_s` seconds ago is still being written.
    """

    folders: tuple[Watch, ...] = ()
    settle_s: int = SETTLE_S
    faults: tuple[str, ...] = ()


@functools.lru_cache(maxsize=4)
def _loaded(text: str) -> Any:
    """What is in the file: it is looked at with every beat, and hardly ever another one."""
    return load(FILE, text)


def parse(text: str, workspace: Path, allowed: Collection[Path], pipelines: Collection[str]) -> Watching:
    """`read` of a file without any fault. Raises BadInput with a line for each."""
    found = read(text, workspace, allowed, pipelines)
    if found.faults:
        raise BadInput("\n".join(found.faults))
    return found


def read(text: str, workspace: Path, allowed: Collection[Path], pipelines: Collection[str]) -> Watching:
    """The file's meaning; relative paths start at `workspace`. Raises BadInput if it has none as a whole: a folder with
    a fault, or whose pipeline has one, keeps no other from being watched.

    A folder lies in the workspace or in one of `allowed`: what may be read is not for the agent to decide.
    """
    data = _loaded(text)
    if data is None:
        return Watching()
    folders = data.get("folders") or [] if isinstance(data, dict) else None
    if not isinstance(folders, list) or set(data) - {"folders", "settle"} or len(folders) > MAX_FOLDERS:
        raise BadInput(f"{FILE}: accepted is {FORM}; at most {MAX_FOLDERS} folders")
    try:
        settle_s = seconds(data.get("settle", SETTLE_S))
    except ValueError as error:
        raise BadInput(f"{FILE}: settle: {data['settle']!r} is no length of time; accepted: {DURATION}") from error
    roots = [os.path.realpath(root) for root in (workspace, *allowed)]
    paths = [_real(folder, roots[0]) for folder in folders]
    watches: list[Watch] = []
    faults: list[str] = []
    for place, (folder, path) in enumerate(zip(folders, paths, strict=True), 1):
        wrong = [f"{FILE}: folder {place}: {fault}" for fault in _faults(folder, path, roots, pipelines)]
        faults += wrong
        watches += [] if wrong else [_watch(folder, path)]
    return Watching(tuple(watches), settle_s, tuple(faults))


def _real(folder: Any, root: str) -> str:
    """Where a folder really lies, past all links; empty if none is named. `root` is a real path, where others start."""
    named = folder.get("path") if isinstance(folder, dict) else None
    if not isinstance(named, str) or not named or "\0" in named:
        return ""
    path = os.path.join(root, os.path.expanduser(named))
    return path if _has_no_links(path, root) else os.path.realpath(path)


def _has_no_links(path: str, root: str) -> bool:
    """Whether `path` leads straight from `root` down: three times as fast to see as where it really lies."""
    if not path.startswith(root + os.sep):
        return False
    for part in path[len(root) + 1 :].split(os.sep):
        root = os.path.join(root, part)
        if part in ("", os.curdir, os.pardir) or os.path.islink(root):
            return False
    return True


def _faults(folder: Any, path: str, roots: Sequence[str], pipelines: Collection[str]) -> Iterator[str]:
    if not isinstance(folder, dict) or set(folder) - set(FIELDS):
        yield f"accepted is a mapping of {', '.join(FIELDS)}"
        return
    if not path:
        yield "path: is missing; accepted: a folder such as inbox/podcasts"
    elif not any(_is_in(path, root) for root in roots):
        named = folder["path"]
        yield f"path: {named} is outside the workspace; DEVICE_FOLDERS names the folders outside that may be read"
    if not _patterns(folder) or not all(isinstance(one, str) and one and "/" not in one for one in _patterns(folder)):
        yield "pattern: accepted is one such as '*.mp3', or a list of them, without slashes"
    if folder.get("pipeline") not in pipelines:
        known = ", ".join(sorted(pipelines)) or "none yet"
        yield f"pipeline: there is no {folder.get('pipeline')!r}; accepted: {known}"
    if folder.get("priority", Priority.FILE) not in (Priority.FILE, Priority.BATCH):
        yield f"priority: {folder.get('priority')!r}; accepted: file, batch"


def _watch(folder: Mapping[str, Any], path: str) -> Watch:
    return Watch(
        Path(path),
        tuple(_patterns(folder)),
        folder["pipeline"],
        Priority(folder.get("priority", Priority.FILE)),
    )


def _patterns(folder: Mapping[str, Any]) -> list[Any]:
    given = folder.get("pattern")
    return given if isinstance(given, list) else [given] if given is not None else []


def _is_in(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
