"""Order in the house: old logs, copies and outputs deleted, a log distilled, a turn settled. Bodies of steps."""

import asyncio
import shutil
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import delete

from app.agent.harness import Harness
from app.agent.heartbeat.distillation import distil_log
from app.db import Tx
from app.files import DRAFTS
from app.memory.memory_file import prune_versions
from app.memory.workspace import OWN_FOLDER, Workspace
from app.sessions import albums, turns
from app.tables import backups

KEEP_BACKUPS_FOR = timedelta(days=14)
"""/undo files puts back what the last turn wrote; nobody looks for older copies."""

KEEP_ARTIFACTS_FOR = timedelta(days=30)

KEEP_DRAFTS_FOR = timedelta(days=1)
"""No file takes so long to write: whoever began it is dead."""


async def prune_log(harness: Harness, _run_id: str, name: str) -> dict[str, Any]:
    """Delete a log that is old and distilled."""
    principal, _, file = name.rpartition("/")
    await asyncio.to_thread((harness.at(principal).daily_log.folder / file).unlink, missing_ok=True)
    return {"pruned": name}


async def distil(harness: Harness, run_id: str, name: str) -> dict[str, Any]:
    return await distil_log(harness, name, run_id)


async def tidy(harness: Harness, _run_id: str, _of: str) -> dict[str, Any]:
    """Delete copies for /undo, large outputs, versions of MEMORY.md and half-written files that nobody will look for
    any more, of the operator and of everybody else; counts."""
    now = harness.clock.now()
    everybody = await asyncio.to_thread(_workspaces, harness.workspace)
    copies = outputs = memories = 0
    for one in everybody:
        backups_before, artifacts_before = now - KEEP_BACKUPS_FOR, now - KEEP_ARTIFACTS_FOR
        folder = one.root / OWN_FOLDER / "backups"
        copies += await asyncio.to_thread(_delete_older, folder, backups_before.timestamp())
        outputs += await asyncio.to_thread(_delete_older, one.artifacts, artifacts_before.timestamp())
        memories += await asyncio.to_thread(prune_versions, one.root)
    await harness.db.write(_forget_backups, now - KEEP_BACKUPS_FOR)
    await harness.db.write(albums.forget_old, now)
    drafts = await asyncio.to_thread(_delete_drafts, harness.workspace.root, (now - KEEP_DRAFTS_FOR).timestamp())
    return {"backups": copies, "artifacts": outputs, "memories": memories, "drafts": drafts}


def _workspaces(whole: Workspace) -> list[Workspace]:
    return [whole, *map(whole.of, whole.principals())]


def _delete_older(folder: Path, before: float) -> int:
    """Delete files and folders in `folder` that were last changed before this time; how many. Blocks."""
    old = _older(folder.iterdir(), before) if folder.is_dir() else []
    for path in old:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return len(old)


def _delete_drafts(root: Path, before: float) -> int:
    old = _older(root.rglob(DRAFTS), before)
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _older(paths: Iterable[Path], before: float) -> list[Path]:
    return [path for path in paths if not path.is_symlink() and path.stat().st_mtime < before]


def _forget_backups(tx: Tx, before: datetime) -> None:
    tx.execute(delete(backups).where(backups.c.created_at < before))


async def settle(harness: Harness, turn_id: str, session_key: str = "") -> dict[str, Any]:
    """Note that what follows a turn is done, so that a one-shot client may leave."""
    await harness.db.write(turns.settle, turn_id, harness.clock.now())
    harness.notifier.publish(session_key)
    return {"settled": turn_id}
