"""What the model is shown: a pure function of the transcript that gives valid input for every provider format."""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from app.agent.context.coverage import newest_user, visible
from app.agent.context.pictures import attached_pictures, picture_of, with_pictures
from app.agent.context.pruning import PICTURES, Message, prune, shrink
from app.agent.context.summary import OPENING
from app.agent.models.provider import with_thinking
from app.events import safe_text, wire_safe
from app.sessions.calls import CallRecord, CallState
from app.sessions.transcript import Entry

NOT_RUN = "[Not run: a newer message came in first.]"
NO_RESULT = "[No result was recorded.]"
DRAFT = "[This answer was not sent, because a newer message came in.]"
EMPTY = "(empty message)"
NUDGE = "Your last answer was empty. Answer the user now, in words."
MAX_IDS = 10**8
KNOWN_CHARS = 1_000
FIRST_WARNING_LEFT = 5
LAST_WARNING_LEFT = 2


def build_context(
    transcript: Sequence[Entry],
    system: str,
    *,
    shrink_level: int = 0,
    notes: Sequence[str] = (),
    model: str = "",
    pictures: Mapping[str, str] | None = None,
) -> list[Message]:
    """OpenAI-format messages: system prompt, then the transcript cleaned, pruned and shrunk, then notes for this call.

    Summaries stand first, in the place of what they cover. Each assistant message keeps all its results directly
    behind it, ids are ours and unique, neighbours of the same role are merged where formats demand it. Thinking goes
    back to the `model` that thought it, and only within the turn it belongs to. A model that sees is shown the
    `pictures` (path to data URL). Does no I/O and never changes the transcript.
    """
    summary, entries = visible(transcript)
    opening = f"{OPENING}\n{safe_text(summary)}" if summary else ""
    messages = shrink(prune(_messages(entries, opening, model)), shrink_level)
    if opening and not (messages and str(messages[0]["content"]).startswith(opening)):
        _put_first(messages, opening)  # shrinking drops what is old, and the summary is what must stay of it
    for note in notes:
        _append_user(messages, f"[System note: {note}]")
    if shrink_level > 1 and pictures:
        pictures = {}
    return [{"role": "system", "content": safe_text(system)}, *with_pictures(messages, pictures)]


def _messages(transcript: Sequence[Entry], opening: str = "", model: str = "") -> list[Message]:
    messages: list[Message] = [{"role": "user", "content": opening}] if opening else []
    ids = Ids()
    live = {entry.id for entry in transcript[newest_user(transcript) :]} if model else set[int]()
    speaking = (entry for entry in transcript if entry.role == "user" or entry.calls or _words(entry))
    for by_user, entries in groupby(speaking, lambda entry: entry.role == "user"):
        if by_user:
            said = list(entries)
            _append_user(messages, "\n\n".join(map(user_text, said)), [p for e in said for p in attached_pictures(e)])
        elif messages:  # formats demand that a user speaks first
            messages.extend(_assistant(entries, live, model, ids))
    return messages


def _put_first(messages: list[Message], opening: str) -> None:
    if messages and messages[0]["role"] == "user":
        messages[0] = messages[0] | {"content": f"{opening}\n\n{messages[0]['content']}"}
    else:
        messages.insert(0, {"role": "user", "content": opening})


def _assistant(entries: Iterable[Entry], live: Container[int], model: str, ids: "Ids") -> Iterator[Message]:
    words: list[str] = []
    for entry in entries:
        if text := _words(entry):
            words.append(text)
        if entry.calls:
            content = "\n\n".join(words) or None
            named = [(ids.fresh(call), call) for call in entry.calls]
            message = {"role": "assistant", "content": content, "tool_calls": [_call(*one) for one in named]}
            yield with_thinking(message, _thinking(entry, model)) if entry.id in live else message
            yield from (_result(*one) for one in named)
            words = []
    if words:
        yield {"role": "assistant", "content": "\n\n".join(words)}


def _thinking(entry: Entry, model: str) -> Message:
    """What the model thought before these calls, in the form its provider gave it; other models refuse it."""
    thinking = entry.data.get("thinking")
    return dict(thinking) if entry.data.get("model") == model and isinstance(thinking, dict) else {}


def _words(entry: Entry) -> str:
    text = safe_text(entry.text).strip()
    return f"{text}\n\n{DRAFT}".strip() if entry.data.get("draft") else text


def user_text(entry: Entry) -> str:
    """The words of an input with who speaks and what came along."""
    text = entry.text
    sender = entry.data.get("sender")
    if sender and entry.data.get("group"):
        text = f"{sender}: {text}"
    if entry.origin not in (None, "person", "task"):
        text = f"[From {entry.origin}, not from a person]\n{text}"
    for mark in entry.data.get("marks", ()):
        text = f"[{mark}]\n{text}"
    for attachment in entry.data.get("attachments", ()):
        text += f"\n[{attached_text(attachment)}]"
    return safe_text(text).strip() or EMPTY


def attached_text(attachment: Mapping[str, Any]) -> str:
    """What the model reads of a file that came along: where it lies, or why it is not there."""
    kind = str(attachment.get("kind", "file")).replace("_", " ")
    name = attachment.get("name") or ""
    if attachment.get("path"):
        called = f" {name}" if name else ""
        text = f"Attached {kind}{called}: {attachment['path']} in the workspace, {attachment.get('size', '?')} bytes"
        return (
            f"{text}; what is said in it is not known: {attachment['unheard']}" if attachment.get("unheard") else text
        )
    why = attachment.get("fault") or "its content is not available here"
    return f"Attached {kind} {name or attachment.get('mime') or ''}".rstrip() + f": {why}"


def _append_user(messages: list[Message], text: str, pictures: Sequence[str] = ()) -> None:
    if messages and messages[-1]["role"] == "user":
        message = messages.pop()
        message = message | {"content": f"{message['content']}\n\n{text}"}
    else:
        message = {"role": "user", "content": text}
    messages.append(message | {PICTURES: [*message.get(PICTURES, ()), *pictures]} if pictures else message)


class Ids:
    """Ids for calls that every provider accepts: 9 letters and digits, none twice. The provider's own are only data.

    They are made from our own numbers, so that a call has the same id in every request; a number that comes again
    (the same call twice, or one that is 10**8 further) takes the next that is free.
    """

    def __init__(self) -> None:
        self._given: set[int] = set()

    def fresh(self, call: CallRecord) -> str:
        number = call.id % MAX_IDS
        while number in self._given:
            number = (number + 1) % MAX_IDS
        self._given.add(number)
        return f"c{number:08d}"


def _call(call_id: str, call: CallRecord) -> dict[str, Any]:
    name = _FOREIGN.sub("_", call.name)[:64] or "unknown"
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": _arguments(call.arguments)},
    }


_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_ODD = re.compile(r"\\u|NaN|Infinity|\d{16}")
_FLAT = 20


def _is_plain(text: str) -> bool:
    """Whether JSON can stay as written: no escapes, numbers or nesting that a provider may refuse."""
    return text.isascii() and text.count("[") + text.count("{") < _FLAT and not _ODD.search(text)


def _arguments(text: str) -> str:
    """Arguments as a JSON object: some providers refuse a history in which they are anything else."""
    return _known_arguments(text) if len(text) <= KNOWN_CHARS else _as_object(text)


@lru_cache(maxsize=4_096)
def _known_arguments(text: str) -> str:
    """Every thought shows what the one before showed: the same text is read once."""
    return _as_object(text)


def _as_object(text: str) -> str:
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return json.dumps({"_unreadable": safe_text(text)[:2_000]})
    if text and isinstance(parsed, dict) and _is_plain(text):
        return text
    return json.dumps(wire_safe(parsed if isinstance(parsed, dict) else {"_value": parsed}))


def _result(call_id: str, call: CallRecord) -> Message:
    if call.result is None:
        text = _without_result(call)
    else:
        text = safe_text(call.result).strip("\n")
        text = text if text and not text.isspace() else "(no output)"
    message = {"role": "tool", "tool_call_id": call_id, "content": text}
    picture = picture_of(call)
    return message | {PICTURES: [picture]} if picture else message


def _without_result(call: CallRecord) -> str:
    if call.state == CallState.STARTED and call.child_key:
        return f"[Still running as {call.child_key}; its result will come in by itself. Do not delegate it again.]"
    return NOT_RUN if call.state == CallState.PLANNED else NO_RESULT


def budget_note(iteration: int, limit: int) -> str | None:
    """A warning as the iteration limit comes near (`iteration` counts from 0)."""
    left = limit - iteration
    if left <= LAST_WARNING_LEFT:
        steps = "1 step" if left == 1 else f"{left} steps"
        return f"{steps} left in this turn. Use no more tools; answer the user now with what you have."
    if left <= FIRST_WARNING_LEFT:
        return f"{left} steps left in this turn. Come to an end: finish what matters most and answer."
    return None
