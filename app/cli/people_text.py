"""People and deliveries as text for a terminal; `--json` prints what the service said instead."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.cli.chat import printable
from app.cli.runs_text import columns


def people_table(found: Sequence[Mapping[str, Any]]) -> str:
    """One line each: id, state, role, name, language, time zone, since when and by whom."""
    if not found:
        return "Nobody yet. `moab people pair` makes a code that lets somebody in."
    head = ("ID", "STATE", "ROLE", "NAME", "LANGUAGE", "TIME ZONE", "SINCE", "BY")
    rows = [
        (
            one["id"],
            one["state"],
            "chat" if one["kind"] == "chat" else one["role"],
            *(str(one[name] or "") for name in ("name", "language", "timezone")),
            str(one["since"] or "")[:16],
            str(one["by"] or ""),
        )
        for one in found
    ]
    return printable(columns([head, *rows]))


def deliveries_table(found: Sequence[Mapping[str, Any]]) -> str:
    """One line each, newest first: when, chat, state, attempts, why, and the beginning of the text."""
    if not found:
        return "Everything has arrived."
    head = ("WRITTEN", "CHAT", "STATE", "TRIES", "WHY", "TEXT")
    rows = [
        (
            str(one["createdAt"])[:16],
            one["chat"],
            one["state"],
            str(one["attempts"]),
            _why(one),
            one["text"],
        )
        for one in found
    ]
    return printable(columns([head, *rows]))


def _why(one: Mapping[str, Any]) -> str:
    wait = f" (not before {str(one['notBefore'])[11:19]})" if one["state"] == "pending" and one["notBefore"] else ""
    return f"{one['reason'] or 'not tried yet'}{wait}" if one["state"] != "sent" else ""
