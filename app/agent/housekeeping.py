"""What the heartbeat does for the memory: distil logs that are due, prune old ones, note that a turn is settled."""

import asyncio
import logging
from pathlib import Path
from typing import Any

from app.agent.harness import Harness
from app.agent.llm import ModelFailure
from app.files import write_atomic
from app.memory import distil
from app.memory.daily_log import LogFile
from app.sessions import turns

log = logging.getLogger("moab.agent")


async def look_around(harness: Harness, turn_id: str | None, session_key: str = "") -> dict[str, Any]:
    """Cheap test first: names of logs to distil and to prune. With none, the turn `turn_id` is settled at once."""
    logs = await asyncio.to_thread(harness.daily_log.files)
    today = harness.daily_log.local(harness.clock.now()).date()
    done = await harness.db.read(distil.done)
    due = [] if harness.settings.is_local_model else [entry.name for entry in distil.due(logs, done, today)]
    old = [entry.name for entry in distil.outdated(logs, done, today)]
    if turn_id is not None and not due and not old:
        await harness.db.write(turns.settle, turn_id, harness.clock.now())
    harness.notifier.publish(session_key)
    return {"distil": due, "prune": old}


async def distil_log(harness: Harness, name: str) -> dict[str, Any]:
    """Merge one log into MEMORY.md; a model failure is a value and leaves the log for the next beat."""
    entry = await _find(harness, name)
    if entry is None:
        return {"log": name, "kind": "gone"}
    memory_file = harness.workspace.root / "MEMORY.md"
    memory = await asyncio.to_thread(_text, memory_file)
    notes = await asyncio.to_thread(_text, harness.daily_log.folder / name)
    answer = await harness.llm.complete(harness.settings.model, distil.request(memory, notes))
    if isinstance(answer, ModelFailure):
        log.info("Distilling %s failed (%s); the next beat tries again.", name, answer.trouble)
        return {"log": name, "kind": "failed", "reason": answer.trouble}
    content = distil.accepted(answer.text)
    if content is None:
        log.warning("The model's new MEMORY.md for %s is empty or too long; the old one stays.", name)
        return {"log": name, "kind": "refused"}
    if not await asyncio.to_thread(_replace, memory_file, memory, content):
        log.info("MEMORY.md changed while %s was distilled; the next beat tries again.", name)
        return {"log": name, "kind": "changed"}
    await harness.db.write(distil.note_done, entry, harness.clock.now())
    return {"log": name, "kind": "distilled"}


async def prune_logs(harness: Harness, names: list[str]) -> dict[str, Any]:
    """Delete logs that are old and distilled."""
    for name in names:
        await asyncio.to_thread((harness.daily_log.folder / name).unlink, missing_ok=True)
    return {"pruned": len(names)}


async def settle(harness: Harness, turn_id: str, session_key: str = "") -> dict[str, Any]:
    """Note that what follows a turn is done, so that a one-shot client may leave."""
    await harness.db.write(turns.settle, turn_id, harness.clock.now())
    harness.notifier.publish(session_key)
    return {"settled": turn_id}


async def _find(harness: Harness, name: str) -> LogFile | None:
    logs = await asyncio.to_thread(harness.daily_log.files)
    return next((entry for entry in logs if entry.name == name), None)


def _replace(path: Path, known: str, content: str) -> bool:
    """Write the file, unless somebody changed it since it was read: the model knows nothing of that."""
    if _text(path) != known:
        return False
    write_atomic(path, content)
    return True


def _text(path: Path) -> str:
    return path.read_text("utf-8", errors="replace") if path.is_file() else ""
