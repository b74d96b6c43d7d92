"""Somebody is forgotten: what runs for him is ended, and his rows, files and records of runs are deleted for good."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.agent.announce import announce
from app.agent.goals.orders import halt
from app.agent.harness import Harness
from app.agent.heartbeat.learned import erase
from app.db import Tx
from app.memory.workspace import OWN_FOLDER, Workspace
from app.sessions import people, person_records
from app.sessions.people import folder_of, principal_of
from app.sessions.person_records import Holdings
from app.sessions.search import rebuild

ForgetRuns = Callable[[Holdings], Awaitable[tuple[int, int] | None]]
"""Ends and deletes the runs of what belongs to somebody: how many went and stayed; None where they lie elsewhere."""


@dataclass(frozen=True)
class Forgotten:
    """What was deleted: how many conversations, whether the memory (an admin's is the operator's), and the runs."""

    sessions: int
    keeps_memory: bool
    runs: tuple[int, int] | None


async def forget(harness: Harness, person_id: str, forget_runs: ForgetRuns) -> Forgotten:
    """Delete everything that is kept of a person or group. Safe to repeat.

    Runs go first, so that nothing new is written, and once more behind the rows, for what was written meanwhile.
    """
    of, keeps_memory, roots = await harness.db.read(_look, harness, person_id)
    before = await forget_runs(of)
    events = await harness.db.write(_forget, harness, of)
    await asyncio.to_thread(_delete_files, harness.workspace, of, roots, keeps_memory)
    await erase(harness, of.learned)
    if events:
        await announce(harness, events)
    after = await forget_runs(of)
    await harness.db.scrub()
    runs = None if before is None or after is None else (before[0] + after[0], after[1])
    return Forgotten(len(of.sessions), keeps_memory, runs)


def _look(tx: Tx, harness: Harness, person_id: str) -> tuple[Holdings, bool, dict[str, str]]:
    """What belongs to somebody; whether the memory is the operator's; whose workspace each session works in."""
    of, admins = person_records.holdings(tx, person_id), harness.settings.approval_admins
    sessions = dict.fromkeys((*of.sessions, *(session_id for session_id, _ in of.files)))
    roots = {one: principal_of(tx, one, admins).folder for one in sessions}
    return of, person_id in (*admins, *people.admins(tx)), roots


def _forget(tx: Tx, harness: Harness, of: Holdings) -> list[dict[str, Any]]:
    events = [event for goal_id in of.goals for event in halt(tx, harness, goal_id)]
    person_records.forget(tx, of.person_id, harness.clock.now())
    rebuild(tx)
    return events


def _delete_files(whole: Workspace, of: Holdings, roots: dict[str, str], keeps_memory: bool) -> None:
    """Blocks. What came with messages, what calls and goals made, copies for /undo, and the own workspace."""
    places = {session_id: (whole.of(folder) if folder else whole).root for session_id, folder in roots.items()}
    for session_id, path in of.files:
        _delete_inside(places[session_id], path)
    for root in set(places.values()):
        _delete_of_runs(root / OWN_FOLDER, of.runs)
    for goal_id in of.goals:
        shutil.rmtree(whole.root / OWN_FOLDER / "goals" / goal_id, ignore_errors=True)
    if not keeps_memory:
        shutil.rmtree(whole.of(folder_of(of.person_id)).root, ignore_errors=True)


def _delete_inside(root: Path, path: str) -> None:
    if (root / path).resolve().is_relative_to(root.resolve()):
        (root / path).unlink(missing_ok=True)


def _delete_of_runs(own: Path, runs: Sequence[str]) -> None:
    known = set(runs)
    for path in (own / "artifacts").glob("*"):
        if path.name.partition("-")[0] in known:
            path.unlink(missing_ok=True)
    for run_id in runs:
        shutil.rmtree(own / "backups" / run_id, ignore_errors=True)
