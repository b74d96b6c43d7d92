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
    at = f"{until:%H:%M}" if until.date() == row.created_at.date() else f"{until:%Y-%m-%d %H:%M}"
    ends = say("Open until {until}.", language, until=at)
    if row.kind == "question":
        return _question(row.id, row.request["arguments"], ends, language, group)
    may_i = say("May I run **{tool}**?", language, tool=row.tool)
    where = say("In {folder}.", language, folder=row.request["folder"])
    how = say("/approve {id} or /deny {id} [reason].", language, id=row.id)
    text = f"{may_i}\n\n{fenced(shown(row.tool, arguments, language))}\n\n{where} {how} {ends}"
    words = [(say("Approve", language), "approve"), (say("Deny", language), "deny")]
    return text, [[{"text": word, "data": f"{verb} {row.id}"} for word, verb in words]]


def _question(
    approval_id: str, arguments: Mapping[str, Any], ends: str, language: str, group: bool
) -> tuple[str, Buttons]:
    choices = list(arguments.get("choices") or ())
    listed = "".join(f"\n{number}. {choice}" for number, choice in enumerate(choices, 1))
    where = say(IN_GROUP, language) if group else ""
    free = where or say("Your next message is the answer.", language)
    how = f"{say('Answer with a number or one of these words.', language)} {where}".rstrip() if choices else free
    buttons = [
        [{"text": choice[:BUTTON_CHARACTERS], "data": f"answer {approval_id} {number}"}]
        for number, choice in enumerate(choices, 1)
    ]
    body = f"{arguments['question']}\n{listed}" if choices else arguments["question"]
    return f"{body}\n\n{how} {ends}", buttons


def shown(tool: str, arguments: str, language: str = "") -> str:
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
    left_out = say(
        "[… {count} characters are not shown here; `moab approvals` shows all of them …]",
        language,
        count=len(text) - 2 * half,
    )
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


def ended_text(row: Approval, language: str = "") -> str:
    """How a request ended, in one sentence that fits both the model and the person."""
    if row.kind == "question":
        what = say("The question ({id})", language, id=row.id)
        not_done = ""
    else:
        what = say("The request to run {tool} ({id})", language, tool=row.tool, id=row.id)
        not_done = say("It was not done.", language)
    values = {"what": what, "by": row.decided_by or say("somebody", language), "why": row.note, "answer": row.answer}
    match row.state:
        case State.APPROVED | State.USED:
            return say("{what} was approved by {by}.", language, **values)
        case State.DENIED if row.note:
            said = say("{what} was denied by {by}: {why}.", language, **values)
        case State.DENIED:
            said = say("{what} was denied by {by}.", language, **values)
        case State.ANSWERED:
            return say("{what} was answered by {by}: {answer}", language, **values)
        case State.EXPIRED:
            said = say("{what} expired: nobody answered in time.", language, **values)
        case State.SUPERSEDED:
            said = say("{what} is closed: something newer took its place.", language, **values)
        case _:
            return say("{what} is open.", language, **values)
    return f"{said} {not_done}".strip()
