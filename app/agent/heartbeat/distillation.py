"""Merging a daily log into MEMORY.md: the words come from a model, and what may become of the file is decided here."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

from app.agent.harness import Harness
from app.agent.models.llm import ModelFailure
from app.agent.people.aside import ask_aside
from app.db import Tx
from app.memory import distil
from app.memory.daily_log import LogFile
from app.memory.memory_file import read_memory, replace_memory
from app.work import rounds

log = logging.getLogger("moab.agent")

ROUND = "distil"
LEASE = timedelta(minutes=10)
"""How long one beat has for it before another one tries."""

PAUSE = timedelta(minutes=30)
LONGEST_PAUSE = timedelta(hours=6)


def take_distillation(tx: Tx, harness: Harness) -> bool:
    """Whether this beat is to distil: one does at a time, and after failures not at once again."""
    now = harness.clock.now()
    return rounds.take(tx, ROUND, now, now + LEASE)


async def distil_log(harness: Harness, name: str, run_id: str = "") -> dict[str, Any]:
    """Merge one log into MEMORY.md; a model failure is a value and leaves the log for a later beat.

    What it cost is counted under `run_id`. Answers with log, kind (distilled, gone, failed, refused or changed) and,
    where it failed, the reason.
    """
    done = await _distil(harness.at(name.rpartition("/")[0]), name, run_id)
    await harness.db.write(_note, harness, done["kind"] in ("failed", "refused"))
    return {"log": name} | done


async def _distil(harness: Harness, name: str, run_id: str) -> dict[str, Any]:
    entry = await _find(harness, name)
    if entry is None:
        return {"kind": "gone"}
    if (await harness.db.read(distil.done)).get(name) == entry.digest:  # this step ran before, or another beat's did
        return {"kind": "distilled"}
    root = harness.workspace.root
    memory = await asyncio.to_thread(read_memory, root)
    file = harness.daily_log.folder / name.rpartition("/")[2]
    notes = await asyncio.to_thread(file.read_text, "utf-8", "replace")
    answer = await ask_aside(harness, run_id, f"distil:{name}", distil.request(memory, notes))
    if isinstance(answer, ModelFailure):
        log.info("Distilling %s failed (%s); a later beat tries again.", name, answer.trouble)
        return {"kind": "failed", "reason": answer.trouble}
    content = distil.accepted(answer.text, memory)
    if content is None:
        log.warning("The model's new MEMORY.md for %s is empty, too long or much shorter; the old one stays.", name)
        return {"kind": "refused"}
    if not await asyncio.to_thread(replace_memory, root, memory, content, harness.clock.now()):
        log.info("MEMORY.md changed while %s was distilled; the next beat tries again.", name)
        return {"kind": "changed"}
    await harness.db.write(distil.note_done, entry, harness.clock.now())
    return {"kind": "distilled"}


def _note(tx: Tx, harness: Harness, failed: bool) -> None:
    now = harness.clock.now()
    before = rounds.find(tx, ROUND)
    failures = (before.failures if before else 0) + 1 if failed else 0
    pause = min(PAUSE * 2 ** min(failures - 1, 10), LONGEST_PAUSE) if failed else timedelta()
    rounds.note(tx, ROUND, now, now + pause, failures=failures)


async def _find(harness: Harness, name: str) -> LogFile | None:
    logs = await asyncio.to_thread(harness.daily_log.files)
    return next((entry for entry in logs if entry.name == name), None)
