"""What the model is shown: a pure function of the transcript that gives valid input for every provider format."""

import json
from collections.abc import Sequence
from typing import Any

from app.agent.pruning import Message, prune, shrink
from app.events import wire_safe
from app.sessions.calls import CallRecord, CallState
from app.sessions.transcript import Entry

NOT_RUN = "[Not run: a newer message came in first.]"
NO_RESULT = "[No result was recorded.]"
DRAFT = "[This answer was not sent, because a newer message came in.]"
EMPTY = "(empty message)"
NUDGE = "Your last answer was empty. Answer the user now, in words."
FIRST_WARNING_LEFT = 5
LAST_WARNING_LEFT = 2


def build_context(
    transcript: Sequence[Entry], system: str, *, shrink_level: int = 0, notes: Sequence[str] = ()
) -> list[Message]:
    """OpenAI-format messages: system prompt, then the transcript cleaned, pruned and shrunk, then notes for this call.

    Each assistant message keeps all its results directly behind it, ids are ours and unique, neighbours of the same
    role are merged where formats demand it. Does no I/O and never changes the transcript.
    """
    messages: list[Message] = []
    for entry in transcript:
        _append(messages, entry)
    while messages and messages[0]["role"] != "user":
        messages.pop(0)  # formats demand that a user speaks first
    messages = shrink(prune(messages), shrink_level)
    for note in notes:
        _append_user(messages, f"[System note: {note}]")
    return [{"role": "system", "content": wire_safe(system)}, *messages]


def _append(messages: list[Message], entry: Entry) -> None:
    if entry.role == "user":
        _append_user(messages, user_text(entry))
        return
    text = _clean(entry.text)
    if entry.data.get("draft"):
        text = f"{text}\n\n{DRAFT}".strip()
    if not entry.calls:
        if text:
            _append_assistant(messages, text)
        return
    messages.append({"role": "assistant", "content": text or None, "tool_calls": [_call(c) for c in entry.calls]})
    messages.extend(_result(c) for c in entry.calls)


def user_text(entry: Entry) -> str:
    """The words of an input with who speaks and what came along."""
    text = _clean(entry.text)
    sender = entry.data.get("sender")
    if sender and entry.data.get("group"):
        text = f"{sender}: {text}"
    if entry.origin not in (None, "person", "task"):
        text = f"[From {entry.origin}, not from a person]\n{text}"
    for attachment in entry.data.get("attachments", ()):
        name = attachment.get("name") or attachment.get("mime") or ""
        text += f"\n[Attached {attachment.get('kind', 'file')}: {name} — its content is not available here]"
    return text.strip() or EMPTY


def _append_user(messages: list[Message], text: str) -> None:
    if messages and messages[-1]["role"] == "user":
        messages[-1] = messages[-1] | {"content": f"{messages[-1]['content']}\n\n{text}"}
    else:
        messages.append({"role": "user", "content": text})


def _append_assistant(messages: list[Message], text: str) -> None:
    if messages and messages[-1]["role"] == "assistant" and not messages[-1].get("tool_calls"):
        messages[-1] = messages[-1] | {"content": f"{messages[-1]['content']}\n\n{text}"}
    else:
        messages.append({"role": "assistant", "content": text})


def call_id(call: CallRecord) -> str:
    """An id every provider accepts (9 letters and digits); the provider's own may repeat and is only data."""
    return f"c{call.id % 10**8:08d}"


def _call(call: CallRecord) -> dict[str, Any]:
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in call.name)[:64] or "unknown"
    return {
        "id": call_id(call),
        "type": "function",
        "function": {"name": name, "arguments": _arguments(call.arguments)},
    }


def _arguments(text: str) -> str:
    """Arguments as a JSON object: some providers refuse a history in which they are anything else."""
    try:
        parsed = json.loads(text or "{}")
    except ValueError:
        return json.dumps({"_unreadable": _clean(text)[:2_000]})
    return json.dumps(wire_safe(parsed) if isinstance(parsed, dict) else {"_value": wire_safe(parsed)})


def _result(call: CallRecord) -> Message:
    if call.result is not None:
        text = _clean(call.result) or "(no output)"
    else:
        text = _without_result(call)
    return {"role": "tool", "tool_call_id": call_id(call), "content": text}


def _without_result(call: CallRecord) -> str:
    if call.state == CallState.STARTED and call.child_key:
        return f"[Still running as {call.child_key}; its result will come in by itself. Do not delegate it again.]"
    return NOT_RUN if call.state == CallState.PLANNED else NO_RESULT


def _clean(text: str) -> str:
    return str(wire_safe(text)).strip("\n")


def budget_note(iteration: int, limit: int) -> str | None:
    """A warning as the iteration limit comes near (`iteration` counts from 0)."""
    left = limit - iteration
    if left <= LAST_WARNING_LEFT:
        return f"{left} step(s) left in this turn. Use no more tools; answer the user now with what you have."
    if left <= FIRST_WARNING_LEFT:
        return f"{left} steps left in this turn. Come to an end: finish what matters most and answer."
    return None
