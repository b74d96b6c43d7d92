"""Goals and pipelines as text for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.cli.chat import printable
from app.cli.runs_text import columns, short_time


def goals_table(goals: Sequence[Mapping[str, Any]]) -> str:
    """One line a goal: id, life, steps done, pipeline, title; why it does not go on below it."""
    if not goals:
        return "No goals."
    head = ("ID", "LIFE", "STEPS", "PIPELINE", "TITLE")
    rows = [(g["id"], g["life"], _done(g), g["pipeline"], g["title"]) for g in goals]
    lines = columns([head, *rows]).split("\n")
    reasons = ["", *(f"\n    {goal['reason']}{_next(goal)}" if goal.get("reason") else "" for goal in goals)]
    return printable("\n".join(line + reason for line, reason in zip(lines, reasons, strict=True)))


def goal_page(goal: Mapping[str, Any]) -> str:
    """A goal with its steps: state, tries, and what they made."""
    head = [(name, str(goal[name])) for name in ("id", "title", "pipeline", "life")]
    head += [(name, str(goal[name])) for name in ("source", "reason") if goal.get(name)]
    head += [(name, short_time(goal[name])) for name in ("createdAt", "nextTryAt", "closedAt") if goal.get(name)]
    steps = [("STEP", "ACTION", "STATE", "TRIES", "MADE"), *map(_step, goal["steps"])]
    return printable(f"{columns(head)}\n\n{columns(steps)}")


def pipelines_page(found: Mapping[str, Any]) -> str:
    """Each pipeline with its steps in order, then the faults of files that are none."""
    lines = []
    for one in found["pipelines"]:
        lines += [f"{one['name']}: {one['description']}", "    " + " -> ".join(step["id"] for step in one["steps"])]
    lines += [f"Refused: {fault}" for fault in found["faults"].values()]
    return printable("\n".join(lines) or "No pipelines.")


def _next(goal: Mapping[str, Any]) -> str:
    return f" (tried again at {short_time(goal['nextTryAt'])})" if goal.get("nextTryAt") else ""


def _done(goal: Mapping[str, Any]) -> str:
    return f"{sum(step['state'] == 'done' for step in goal['steps'])}/{len(goal['steps'])}"


def _step(step: Mapping[str, Any]) -> tuple[str, ...]:
    made = step["product"] or " ".join(str(step["summary"] or "").split())[:60]
    return step["id"], step["action"], step["state"], str(step["tries"]), made
