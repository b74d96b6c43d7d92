"""Tracked tasks as text for people; `--json` prints what the service said instead."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.cli.chat import printable
from app.cli.runs_text import short_time


def task_page(page: Mapping[str, Any]) -> str:
    """How a task stands, what does not fit together, what is to be done, and everything that was seen."""
    derived = page["derived"]
    lines = [f"{page['id']}  {derived['truth_state']}  {derived['goal']}"]
    lines += [f"  {name}: {state}" for name, state in derived["step_states"].items()]
    lines += [f"  waits outside for {_outside(one)}" for one in derived["pending_external"]]
    lines += [f"  ! {sentence}" for sentence in derived["inconsistencies"]]
    action = page.get("action")
    lines.append(f"  monitor: {_decided(action)}" if action else "  Nobody watches over it any more.")
    lines.append("")
    lines += [_seen(one) for one in page["observed"]]
    return printable("\n".join(lines))


def list_page(tasks: Sequence[Mapping[str, Any]]) -> str:
    """One line a task."""
    return printable("\n".join(_line(task) for task in tasks)) or "No tasks are tracked."


def decisions_page(decided: Sequence[Mapping[str, Any]], *, applied: bool) -> str:
    """One line for each task that is watched over; once `applied`, for each about which something was done."""
    lines = [f"{one['id']}  {_decided(one['action'])}" for one in decided]
    return printable("\n".join(lines)) or ("Nothing had to be done." if applied else "No task is watched over.")


def _line(task: Mapping[str, Any]) -> str:
    step = f" ({task['current_step']})" if task["current_step"] else ""
    return f"{task['id']}  {task['truth_state']}{step}  {task['action'] or ''}  {task['goal']}".rstrip()


def _decided(action: Mapping[str, Any]) -> str:
    due = f" Not before {short_time(action['not_before'])}." if action.get("not_before") else ""
    return f"{action['kind']}: {action['reason']}{due}"


def _outside(one: Mapping[str, Any]) -> str:
    evidence = ", ".join(f"{name} {value}" for name, value in one["evidence"].items())
    return f"{one['name']}, as {one['source']} said ({evidence or 'no evidence'})"


def _seen(one: Mapping[str, Any]) -> str:
    step = f" {one['step']}" if one["step"] else ""
    said = f": {one['summary']}" if one["summary"] else ""
    return f"{short_time(one['at'])}  {one['kind']}{step} ({one['source']}){said}"
