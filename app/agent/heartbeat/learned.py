"""Learnings at work: recorded by the model's tool, promoted into MEMORY.md by the heartbeat or a person, or dropped."""

import asyncio
import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from app.agent.harness import Harness
from app.db import Tx
from app.errors import BadInput, NotFound
from app.memory import learnings
from app.memory.distil import MAX_MEMORY_CHARS
from app.memory.learnings import Learning, LearningState
from app.memory.memory_file import change_versions, read_memory, replace_memory
from app.work import rounds

ROUND = "promote"
EVERY = timedelta(hours=1)
"""How often what is ripe is looked at again: where MEMORY.md is full, every minute would be for nothing."""

WRITE_TRIES = 3
NO_ROOM = "MEMORY.md is full: shorten it first (at most 20,000 characters)."


def take_promotion(tx: Tx, harness: Harness) -> bool:
    """Whether this beat is to promote something."""
    now = harness.clock.now()
    return bool(learnings.ripe(tx)) and rounds.take(tx, ROUND, now, now + EVERY)


async def promote_ripe(harness: Harness, _run_id: str, _of: str) -> dict[str, Any]:
    """Promote what was found often; `{"promoted": ids}`. Safe to repeat: a line that is there is not written again."""
    found = await harness.db.read(learnings.ripe)
    return {"promoted": await _promote(harness, found) if found else []}


async def promote(harness: Harness, learning_id: str) -> str:
    """Promote one because a person wants it; says so. Raises NotFound, and BadInput where there is no room."""
    found = await _found(harness, learning_id)
    if not await _promote(harness, [found]):
        raise BadInput(NO_ROOM)
    return f"{learning_id} is a line of MEMORY.md now."


async def drop(harness: Harness, learning_id: str) -> str:
    """Drop one for good, with its line in MEMORY.md; found again it stays dropped. Raises NotFound."""
    await _found(harness, learning_id)
    await harness.db.write(learnings.move, learning_id, LearningState.DROPPED)
    await _rewrite(harness, lambda memory: learnings.without_line(memory, learning_id))
    return f"{learning_id} is dropped."


async def erase(harness: Harness, learning_ids: Sequence[str]) -> None:
    """Take lines out of MEMORY.md and of every version of it that is kept: whom they are of wants to be forgotten."""

    def without(memory: str) -> str:
        return functools.reduce(learnings.without_line, learning_ids, memory)

    if learning_ids and await _rewrite(harness, without):
        await asyncio.to_thread(change_versions, harness.workspace.root, without)


async def _found(harness: Harness, learning_id: str) -> Learning:
    found = await harness.db.read(learnings.find, learning_id)
    if found is None:
        raise NotFound(f"There is no learning {learning_id}.")
    return found


async def _promote(harness: Harness, found: Sequence[Learning]) -> list[str]:
    taken: list[str] = []

    def grown(memory: str) -> str:
        text, ids = learnings.with_lines(memory, found, MAX_MEMORY_CHARS)
        taken[:] = ids
        return text if ids else memory

    if not await _rewrite(harness, grown):
        return []

    def note(tx: Tx) -> None:
        for learning_id in taken:
            learnings.move(tx, learning_id, LearningState.PROMOTED)

    await harness.db.write(note)
    return taken


async def _rewrite(harness: Harness, change: Callable[[str], str]) -> bool:
    """Change MEMORY.md as it is at the moment; False if somebody else writes it all the time."""
    root = harness.workspace.root
    for _ in range(WRITE_TRIES):
        memory = await asyncio.to_thread(read_memory, root)
        changed = change(memory)
        if changed == memory:
            return True
        if await asyncio.to_thread(replace_memory, root, memory, changed, harness.clock.now()):
            return True
    return False


@dataclass(frozen=True)
class OwnLearnings:
    """What a turn learns. Implements `Learnings` of the tool contract."""

    harness: Harness

    async def record(self, text: str, scope: str, key: str) -> str:
        new_id = "l" + hashlib.sha256(key.encode()).hexdigest()[:10]
        now = self.harness.clock.now()
        kept = await self.harness.db.write(learnings.record, new_id, text, scope, key, now)
        if kept.state == LearningState.DROPPED:
            return "This was dropped by a person before and stays dropped."
        if kept.count == 1:
            return f"Kept as {kept.id}."
        return f"Known as {kept.id} and found {kept.count} times now: {kept.text}"
