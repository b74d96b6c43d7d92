"""How a run ends: what it leaves to wait for, and one paragraph that says what it was about, from the records."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.agent.delegation.tasks import local_time
from app.agent.flow import Flow
from app.agent.harness import Harness
from app.agent.quiet import says_nothing
from app.db import Tx
from app.sessions import calls, tasks, turns
from app.sessions.turns import Outcome
from app.work import wakes

ASKED_CHARS = 200
ANSWER_CHARS = 300

WAITS_FOR_PERSON = "It asked whether to go on."


def note_ending(tx: Tx, harness: Harness, flow: Flow, asked: Sequence[str], text: str, state: str) -> None:
    """Write down the outcome of a turn that ends, and its summary. `asked` are the inputs that it answers."""
    outcome, waits = _outcome(tx, harness, flow, state)
    sentences = [_asked(asked), _done(tx, flow.run_id), _said(text, state), waits]
    turns.note_outcome(tx, flow.run_id, outcome, " ".join(filter(None, sentences)))


def _outcome(tx: Tx, harness: Harness, flow: Flow, state: str) -> tuple[Outcome, str]:
    if state == "offered":
        return Outcome.REQUIRES_ACTION, WAITS_FOR_PERSON
    if not flow.delegates:
        return Outcome.DONE, ""
    open_wakes = wakes.open_of_key(tx, flow.session_key)
    own = next((wake for wake in open_wakes if wake.run_id == flow.run_id), None)
    if own is not None:
        return Outcome.RESCHEDULE, f"It comes back at {local_time(harness, own.due_at)}: {_short(own.reason, 100)}"
    waiting = [row.id for row in tasks.open_of_key(tx, flow.session_key)] + [wake.id for wake in open_wakes]
    waiting += [str(child.child_key) for child in calls.running_children(tx, flow.session_id)]
    if waiting:
        return Outcome.SLEEP, f"It is woken by: {', '.join(waiting[:5])}."
    return Outcome.DONE, ""


def _asked(asked: Sequence[str]) -> str:
    if not asked:
        return ""
    more = f" (and {len(asked) - 1} more)" if len(asked) > 1 else ""
    return f'Asked: "{_short(asked[-1], ASKED_CHARS)}"{more}.'


def _done(tx: Tx, run_id: str) -> str:
    made = Counter(name for name, _ in calls.of_run(tx, run_id))
    names = ", ".join(name if count == 1 else f"{name} ({count} times)" for name, count in made.items())
    return f"Called: {names}." if names else ""


def _said(text: str, state: str) -> str:
    if says_nothing(text):
        return "It had nothing to tell."
    said = _short(text, ANSWER_CHARS)
    if not said:
        return ""
    return f"Failed: {said}" if state == "failed" else f'Answered: "{said}".'


def _short(text: Any, limit: int) -> str:
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
