"""Copies of files before a turn's first write, and /undo files, which puts them back."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from app.agent.flow import Flow
from app.agent.harness import Harness
from app.db import Tx
from app.files import write_atomic
from app.memory.workspace import OWN_FOLDER
from app.sentences import Sentence, say
from app.sessions import session, turns, undo

WRITERS = frozenset({"write", "edit", "download"})
MAX_COPY_BYTES = 50_000_000
TOO_LARGE = ""
"""In place of a copy's path: there is none."""

NO_FILE = "none"
WORKING = Sentence("I am still working. End it with /stop first, then /undo files.")
NOTHING = Sentence("The last turn wrote no file with write, edit or download.")

T = TypeVar("T")


async def keeping_copies(
    harness: Harness, flow: Flow, tool: str, arguments: Mapping[str, Any], run: Callable[[], Awaitable[T]]
) -> T:
    """The result of `run`; if the tool writes a file, the file is copied before, once per turn and path."""
    path = await asyncio.to_thread(_target, harness, arguments) if tool in WRITERS else None
    if path is None:
        return await run()
    if not await harness.db.read(undo.is_kept, flow.run_id, path):
        kept = await asyncio.to_thread(_copy, harness, flow.run_id, path)
        now = harness.clock.now()
        await harness.db.write(undo.note_copy, flow.session_id, flow.run_id, path, kept, now)
    result = await run()
    left = await asyncio.to_thread(_digest, harness.workspace.root / path)
    await harness.db.write(undo.note_left, flow.run_id, path, left)
    return result


async def undo_files(harness: Harness, session_key: str, language: str | None = None) -> str:
    """Put back what the last turn wrote; says what was done. Safe to repeat."""
    found = await harness.db.read(_find, session_key)
    if isinstance(found, str):
        return say(found, language)
    restored, refused = await asyncio.to_thread(_restore, harness.workspace.root, found)
    lines = [say("Put back as before the last turn: {files}.", language, files=_listed(restored))] if restored else []
    if refused:
        lines.append(say("Left alone, because somebody changed them since: {files}.", language, files=_listed(refused)))
    return "\n".join(lines)


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(sorted(set(paths)))


def _find(tx: Tx, session_key: str) -> Sequence[Any] | str:
    session_id = session.find(tx, session_key)
    if session_id is None:
        return NOTHING
    turn = turns.newest(tx, session_id)
    if turn is not None and turn.state == "live":
        return WORKING
    return undo.copies(tx, undo.last_runs(tx, session_id)) or NOTHING


def _restore(root: Path, rows: Sequence[Any]) -> tuple[list[str], list[str]]:
    """(paths that are as before, paths left alone)."""
    restored: list[str] = []
    refused: list[str] = []
    for row in rows:
        (restored if _put_back(root, row) else refused).append(row.path)
    return restored, [path for path in refused if path not in restored]


def _put_back(root: Path, row: Any) -> bool:
    target = root / row.path
    if row.kept == TOO_LARGE or target.resolve() != root.resolve() / row.path:
        return False  # no copy, or a link has taken a folder's place
    before = _digest(root / row.kept) if row.kept is not None else NO_FILE
    present = _digest(target)
    if present == before:
        return True
    if row.digest is None or present != row.digest:
        return False
    if row.kept is None:
        target.unlink()
    else:
        write_atomic(target, (root / row.kept).read_bytes())
    return True


def _target(harness: Harness, arguments: Mapping[str, Any]) -> str | None:
    """The file that a call is about to write, relative to the workspace; None if the tool will refuse it anyway."""
    root = os.path.realpath(harness.workspace.root)
    try:
        real = Path(os.path.realpath(os.path.join(root, os.path.expanduser(str(arguments.get("path", ""))))))
        relative = real.relative_to(root).as_posix()
    except (ValueError, OSError):
        return None
    return relative if relative != "." and (real.is_file() or not real.exists()) else None


def _copy(harness: Harness, run_id: str, path: str) -> str | None:
    root = harness.workspace.root
    source = root / path
    if not source.exists():
        return None
    if source.stat().st_size > MAX_COPY_BYTES:
        return TOO_LARGE
    kept = f"{OWN_FOLDER}/backups/{run_id}/{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
    write_atomic(root / kept, source.read_bytes())
    return kept


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else NO_FILE
