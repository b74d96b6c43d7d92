"""What one thought is shown: the prompt, the transcript and the notes of the moment, made to fit the model's window."""

import asyncio
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.agent.context.build import NUDGE, budget_note, build_context
from app.agent.context.coverage import plan, visible
from app.agent.context.picture_file import data_urls
from app.agent.context.pictures import wanted
from app.agent.context.prompts import compact_prompt, system_prompt
from app.agent.context.pruning import Message
from app.agent.context.state_block import state_note
from app.agent.context.window import is_full, tokens_of, window_of, worth_chars
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.models.llm import Facts
from app.agent.recovery import MAX_COMPACTIONS, MAX_SHRINKS
from app.agent.repetition import repeat_note
from app.sessions.transcript import WINDOW, Entry
from app.sessions.usage import LastCall

COMPACT_MESSAGES = 8
"""How many messages a tiny model is shown."""

MANY_ENTRIES = WINDOW * 3 // 4
"""From here on a summary is due whatever the size: a transcript is read only so far back."""


@dataclass(frozen=True)
class Look:
    """What the records say at the beginning of a thought: the transcript, what its last call took, what is open."""

    head: int | None
    entries: Sequence[Entry]
    last: LastCall | None = None
    open_work: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Briefing:
    """The messages for one call; the next call begins with the first `stable` of them too. None: summarise first."""

    messages: list[Message]
    stable: int = 0


async def brief(
    harness: Harness, flow: Flow, request: Mapping[str, Any], look: Look, facts: Facts, tools: Sequence[Any]
) -> Briefing | None:
    """The briefing of a thought, or None when the transcript is to be compacted before it."""
    notes = _notes(flow, request, look)
    if flow.compact:
        prompt = compact_prompt(harness.settings.agent_name)
        return Briefing(build_context(look.entries[-COMPACT_MESSAGES:], prompt, notes=notes))
    today = harness.daily_log.today()
    knowledge = await asyncio.to_thread(harness.workspace.read, today)
    system = system_prompt(knowledge, name=harness.settings.agent_name, today=today, zone=harness.daily_log.zone.key)
    window = window_of(harness.settings.context_tokens, facts.window)
    pictures = await _pictures(harness, request, look) if facts.sees else None
    return fit(request, look, system, notes, tools, window, pictures)


async def _pictures(harness: Harness, request: Mapping[str, Any], look: Look) -> dict[str, str]:
    """By path, the pictures that the model is shown."""
    paths = [] if request.get("blind") else wanted(visible(look.entries)[1])
    return await asyncio.to_thread(data_urls, harness.workspace.root, paths) if paths else {}


def fit(
    request: Mapping[str, Any],
    look: Look,
    system: str,
    notes: Sequence[str],
    tools: Sequence[Any],
    window: int,
    pictures: Mapping[str, str] | None = None,
) -> Briefing | None:
    """Pure: the messages if they fit into `window` tokens, None if a summary helps, else as few as it takes to fit."""
    level, model = int(request["shrink"]), str(request["model"])
    build = functools.partial(build_context, look.entries, system, notes=notes, model=model, pictures=pictures)
    messages = build(shrink_level=level)
    tokens = tokens_of(messages, tools, look.last)
    overflow = bool(request.get("overflow"))
    many = len(look.entries) >= MANY_ENTRIES and len(visible(look.entries)[1]) >= MANY_ENTRIES
    if (overflow or many or is_full(tokens, window)) and request.get("compactions", 0) < MAX_COMPACTIONS:
        if plan(look.entries, 1 if overflow or many else worth_chars(window)) is not None:
            return None
    if overflow:  # nothing to summarise, and the same again would be refused again
        level = max(1, level)
        messages = build(shrink_level=level)
    scale = tokens / max(1, tokens_of(messages, tools, None))
    while is_full(tokens, window) and level < MAX_SHRINKS:
        level += 1
        messages = build(shrink_level=level)
        tokens = int(tokens_of(messages, tools, None) * scale)
    return Briefing(messages, len(messages) - 1 if notes else len(messages))


def _hidden_work(request: Mapping[str, Any], look: Look) -> list[str]:
    """What is open and not to be seen in the transcript, where a call says itself that its sub-agent still works."""
    if request["shrink"] or not look.open_work:
        return list(look.open_work.values())
    seen = {call.child_key for entry in visible(look.entries)[1] for call in entry.calls}
    return [line for key, line in look.open_work.items() if key not in seen]


def _notes(flow: Flow, request: Mapping[str, Any], look: Look) -> list[str]:
    state = state_note(_hidden_work(request, look), flow.standing)
    notes = [state] if state and not flow.compact else []
    if request["nudge"]:
        notes.append(NUDGE)
    warning = budget_note(request["iteration"], flow.max_iterations)
    if warning and not flow.compact:
        notes.append(warning)
    if request.get("repeats"):
        notes.append(repeat_note(request["repeats"]))
    return notes
