"""What a summary stands for in a transcript, and which part of it could be summarised next. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.sessions.transcript import SUMMARY, Entry

KEEP_TURNS = (3, 1)
"""How many of the last assistant messages are never covered: three, or one where that leaves nothing to cover."""

RESULT_CHARS = 3_000
"""What a tool result counts at most: pruning leaves no more of it."""


@dataclass(frozen=True)
class Range:
    """A part of a transcript that a summary may cover: the ids of its first and last message, and what it shows.

    `summary` is the text of the summaries that lie in it.
    """

    first: int
    last: int
    entries: tuple[Entry, ...]
    summary: str = ""


def visible(transcript: Sequence[Entry]) -> tuple[str, list[Entry]]:
    """The summaries in effect as one text, and the messages that none of them covers.

    A summary covers a range that ends before it; where two meet, the newer one counts and the other one is no summary.
    The newest message of a person is never covered.
    """
    if not any(entry.role == SUMMARY for entry in transcript):
        return "", list(transcript)
    places = {entry.id: place for place, entry in enumerate(transcript)}
    hidden = bytearray(len(transcript))
    texts: list[tuple[int, str]] = []
    for place in range(len(transcript) - 1, -1, -1):
        covered = _covered(transcript[place], places, place)
        if covered is not None and hidden.find(1, *covered) < 0:
            start, end = covered
            hidden[start:end] = b"\x01" * (end - start)
            texts.append((start, transcript[place].text.strip()))
    newest = newest_user(transcript)
    left = [
        entry
        for place, entry in enumerate(transcript)
        if entry.role != SUMMARY and (not hidden[place] or place == newest)
    ]
    return "\n\n".join(text for _, text in sorted(texts)), left


def _covered(entry: Entry, places: dict[int, int], own_place: int) -> tuple[int, int] | None:
    """The places (start, behind the end) that a summary covers; a start that is not loaded is the beginning."""
    covers = entry.data.get("covers")
    if entry.role != SUMMARY or not entry.text.strip() or not isinstance(covers, list) or len(covers) != 2:
        return None
    start, end = (places.get(one) if isinstance(one, int) else None for one in covers)
    start = 0 if start is None else start
    return (start, end + 1) if end is not None and start <= end < own_place else None


def newest_user(transcript: Sequence[Entry]) -> int:
    """Where the newest message of a user stands; -1 if there is none."""
    return next((i for i in range(len(transcript) - 1, -1, -1) if transcript[i].role == "user"), -1)


def plan(transcript: Sequence[Entry], least_chars: int) -> Range | None:
    """The range to summarise next, from the beginning up to the last units; None if it shows less than `least_chars`.

    A call and its result are one entry, so no border parts them.
    """
    summary, shown = visible(transcript)
    newest = newest_user(shown)
    turns = [place for place, entry in enumerate(shown) if entry.role == "assistant"]
    for keep in KEEP_TURNS:
        border = turns[-keep] if len(turns) >= keep else 0
        inside = tuple(shown[:border])
        if inside and sum(weight(e) for i, e in enumerate(inside) if i != newest) >= max(1, least_chars):
            return Range(transcript[0].id, inside[-1].id, inside, summary)
    return None


def weight(entry: Entry) -> int:
    """About how many characters of an entry reach the model."""
    calls = sum(len(call.arguments) + min(len(call.result or ""), RESULT_CHARS) for call in entry.calls)
    return len(entry.text) + calls
