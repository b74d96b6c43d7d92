"""What a sub-agent is told of the conversation it comes from: nothing, a summary, or all, as text. Pure."""

from collections.abc import Sequence

from app.agent.context.coverage import visible
from app.sessions.transcript import Entry

ALL_CHARS = 40_000
MESSAGE_CHARS = 4_000
RESULT_CHARS = 1_000
ARGUMENT_CHARS = 300
SUMMARY_CHARS = 12_000
SHORT_CHARS = 800
LAST_EXCHANGES = 2

OPENING = "[What was said before in the conversation that this task comes from. It is for your information.]"
TASK = "[Your task]"
LEFT_OUT = "[Earlier messages are left out.]"


def with_context(task: str, mode: str, entries: Sequence[Entry]) -> str:
    """The first message of a sub-agent: `task`, and before it the parent's conversation if `mode` asks for it."""
    told = {"all": _all, "summary": _summary}.get(mode)
    told_text = told(entries) if told is not None else ""
    return f"{OPENING}\n\n{told_text}\n\n{TASK}\n{task}" if told_text else task


def _all(entries: Sequence[Entry]) -> str:
    summary, shown = visible(entries)
    kept: list[str] = []
    left = ALL_CHARS
    for entry in reversed(shown):
        text = _entry(entry)
        left -= len(text)
        if left < 0:
            kept.append(LEFT_OUT)
            break
        kept.append(text)
    if summary:
        kept.append(summary[:SUMMARY_CHARS])
    return "\n\n".join(text for text in reversed(kept) if text)


def _summary(entries: Sequence[Entry]) -> str:
    summary, shown = visible(entries)
    starts = [place for place, entry in enumerate(shown) if entry.role == "user"][-LAST_EXCHANGES:]
    last = [_words(entry, SHORT_CHARS) for entry in shown[starts[0] :]] if starts else []
    return "\n\n".join(text for text in (summary[:SUMMARY_CHARS], *last) if text)


def _entry(entry: Entry) -> str:
    lines = [_words(entry, MESSAGE_CHARS)]
    for call in entry.calls:
        lines.append(f"[Tool {call.name} {_cut(call.arguments, ARGUMENT_CHARS)}]")
        lines.append(_cut(call.result or "(no result)", RESULT_CHARS))
    return "\n".join(line for line in lines if line)


def _words(entry: Entry, limit: int) -> str:
    if not entry.text.strip():
        return ""
    who = "User" if entry.role == "user" and entry.origin in (None, "person") else "Agent"
    who = f"From {entry.origin}" if entry.role == "user" and who == "Agent" else who
    return f"{who}: {_cut(entry.text.strip(), limit)}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + " […]"
