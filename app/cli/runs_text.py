"""Runs and their steps as text for people; `--json` prints what the service said instead."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from app.cli.chat import printable

VALUE_CHARS = 400
"""How much of a step's input or output is shown; all of it is in `--json`."""


def runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """One line a run: id, function, status, how a turn left off, start, duration, session."""
    if not runs:
        return "No runs."
    head = ("ID", "FUNCTION", "STATUS", "OUTCOME", "STARTED", "TOOK", "SESSION")
    return columns([head, *(_row(run) for run in runs)])


def run_page(found: Mapping[str, Any]) -> str:
    """A run and, one after the other, its steps with what went in and what came out."""
    run = found["run"]
    head = [(name, _text(run.get(name))) for name in ("id", "function", "status", "sessionKey")]
    head.append(("startedAt", short_time(run.get("startedAt"))))
    left = [("outcome", str(run["outcome"]))] if run.get("outcome") else []
    lines = [columns([*head, ("took", _took(run)), *left, ("event", _value(run.get("event")))])]
    lines += ["", printable(str(run["summary"]))] if run.get("summary") else []
    for number, step in enumerate(found.get("steps", ()), start=1):
        lines += ["", *_step(number, step)]
    return "\n".join(lines)


def sessions_table(found: Sequence[Mapping[str, Any]]) -> str:
    """One line a conversation: the name that opens it, messages, when the last one came, what its turn does."""
    if not found:
        return "No conversations."
    head = ("NAME", "MESSAGES", "LAST", "NOW")
    rows = [
        (one["key"].removeprefix("terminal:"), str(one["messages"]), short_time(one["lastAt"]), one["activity"] or "")
        for one in found
    ]
    return printable(columns([head, *rows]))


def usage_table(found: Mapping[str, Any]) -> str:
    """One line a session, day or model, their sum, and the budgets that are set."""
    rows = [*found["rows"], {"name": "total"} | found["total"]]
    head = (str(found["by"]).upper(), "CALLS", "TOKENS IN", "TOKENS OUT", "COST")
    table = columns([head, *(_usage_row(row) for row in rows)])
    budgets = [f"{one['scope']} {_budget(one)}" for one in found["budgets"]]
    return printable(f"{table}\n\nBudgets: {'; '.join(budgets) or 'none'}.")


def _usage_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = tuple(f"{row[name]:,}" for name in ("calls", "input_tokens", "output_tokens"))
    unpriced = f" ({row['unpriced']} without a price)" if row["unpriced"] else ""
    return (str(row["name"]), *counts, f"${row['cost_usd']:.4f}{unpriced}")


def _budget(limit: Mapping[str, Any]) -> str:
    tokens = [f"{limit['tokens']:,} tokens"] if limit["tokens"] else []
    return " and ".join(tokens + ([f"${limit['usd']:.2f}"] if limit["usd"] else []))


def approvals_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """What waits for a person, with everything that is needed to decide."""
    return "\n\n".join(_approval(row) for row in rows) or "Nothing waits for a decision."


def learnings_page(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a learning: id, state, how often it was found, scope, text."""
    if not rows:
        return "Nothing was learned yet."
    head = ("ID", "STATE", "FOUND", "SCOPE", "LEARNING")
    shown = [(str(r["id"]), str(r["state"]), str(r["count"]), str(r["scope"]), str(r["text"])) for r in rows]
    return printable(columns([head, *shown]))


def _approval(row: Mapping[str, Any]) -> str:
    head = f"{row['id']}  {row['tool']}  for {row.get('requester') or 'nobody'} in {row['sessionKey']}"
    return printable(f"{head}, until {short_time(row['expiresAt'])}\n  {row['arguments']}\n  in {row['folder']}")


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    shown = (run.get(name) for name in ("id", "function", "status", "outcome"))
    return (*map(_text, shown), short_time(run.get("startedAt")), _took(run), _text(run.get("sessionKey")))


def _step(number: int, step: Mapping[str, Any]) -> list[str]:
    attempts = step.get("attempts") or 1
    again = f", {attempts} attempts" if attempts > 1 else ""
    title = f"{number}. {_text(step.get('name'))} [{_text(step.get('op'))}] {_text(step.get('status'))}"
    values = [(name, step.get(name)) for name in ("input", "output", "error")]
    return [f"{title}, {_took(step)}{again}", *(f"   {name}: {_value(v)}" for name, v in values if v is not None)]


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines in which each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _took(timed: Mapping[str, Any]) -> str:
    start, end = _moment(timed.get("startedAt")), _moment(timed.get("endedAt"))
    if start is None or end is None:
        return "-"
    seconds = (end - start).total_seconds()
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def short_time(value: Any) -> str:
    """A moment to the second, without its zone where that is UTC; whatever is none as it is."""
    at = _moment(value)
    return _text(value) if at is None else at.isoformat(" ", "seconds").replace("+00:00", "Z")


def _text(value: Any) -> str:
    return "-" if value is None else printable(str(value)).replace("\n", " ")


def _value(value: Any) -> str:
    text = _text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]} … ({len(text)} characters)"
