"""What people read about a request: the prompt with its buttons, and how it ended."""

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.sentences import IN_GROUP, say
from app.sessions.approvals import Approval, State

SHOWN_CHARACTERS = 2_400
BUTTON_CHARACTERS = 48

Buttons = list[list[dict[str, str]]]
"""Rows of buttons; each has `text`, and `data`: the command that pressing it stands for, without the slash."""


def prompt_of(
    row: Approval, arguments: str, until: datetime, language: str = "", *, group: bool = False
) -> tuple[str, Buttons]:
    """The prompt of a request as markdown, and its buttons. `arguments` are the call's, `until` is local time.

    In a `group` the agent hears only what is meant for it, and a prompt says how to say so.
    """
    ends = f"Open until {until:%H:%M}" + (f" on {until:%d %B}." if until.date() != row.created_at.date() else ".")
    if row.kind == "question":
        return _question(row.id, row.request["arguments"], ends, say(IN_GROUP, language) if group else "")
    text = (
        f"May I run **{row.tool}**?\n\n{fenced(shown(row.tool, arguments))}\n\nIn {row.request['folder']}. "
        f"/approve {row.id} or /deny {row.id} [reason]. {ends}"
    )
    words = [(say("Approve", language), "approve"), (say("Deny", language), "deny")]
    return text, [[{"text": word, "data": f"{verb} {row.id}"} for word, verb in words]]


def _question(approval_id: str, arguments: Mapping[str, Any], ends: str, where: str) -> tuple[str, Buttons]:
    choices = list(arguments.get("choices") or ())
    listed = "".join(f"\n{number}. {choice}" for number, choice in enumerate(choices, 1))
    free = where or "Your next message is the answer."
    how = f"Answer with a number or one of these words. {where}".rstrip() if choices else free
    buttons = [
        [{"text": choice[:BUTTON_CHARACTERS], "data": f"answer {approval_id} {number}"}]
        for number, choice in enumerate(choices, 1)
    ]
    body = f"{arguments['question']}\n{listed}" if choices else arguments["question"]
    return f"{body}\n\n{how} {ends}", buttons


def shown(tool: str, arguments: str) -> str:
    """Arguments for a person who decides: all of them, or both ends of very long ones; nothing invisible in it."""
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict) and len(parsed) == 1 and isinstance(next(iter(parsed.values())), str):
        text = next(iter(parsed.values()))
    elif isinstance(parsed, dict):
        text = "\n".join(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
                         for name, value in parsed.items())  # fmt: skip
    else:
        text = arguments
    text = visible(text)
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    left_out = f"[… {len(text) - 2 * half} characters are not shown here; `moab approvals` shows all of them …]"
    return f"{text[:half]}\n{left_out}\n{text[-half:]}"


def visible(text: str) -> str:
    """`text` with control and direction characters written out: what is approved must be what is seen."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else f"\\u{ord(c):04x}"
        for c in text
    )


def fenced(text: str) -> str:
    """A block of code that the text itself cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def refused(tool: str) -> str:
    return f"{tool} is not allowed here, by the policy of the operator. Do it in another way, or say that you cannot."


def ended_text(row: Approval) -> str:
    """How a request ended, in one sentence that fits both the model and the person."""
    what = "The question" if row.kind == "question" else f"The request to run {row.tool}"
    by = f" by {row.decided_by}" if row.decided_by else ""
    why = f": {row.note}" if row.note else ""
    not_done = "" if row.kind == "question" else " It was not done."
    match row.state:
        case State.APPROVED | State.USED:
            return f"{what} ({row.id}) was approved{by}."
        case State.DENIED:
            return f"{what} ({row.id}) was denied{by}{why}.{not_done}"
        case State.ANSWERED:
            return f"{what} ({row.id}) was answered{by}: {row.answer}"
        case State.EXPIRED:
            return f"{what} ({row.id}) expired: nobody answered in time.{not_done}"
        case State.SUPERSEDED:
            return f"{what} ({row.id}) is closed: something newer took its place.{not_done}"
    return f"{what} ({row.id}) is open."
