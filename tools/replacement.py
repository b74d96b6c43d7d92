"""Replacing passages of a text by others: exactly those that were meant, or a sentence that helps to name them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from app.errors import BadInput

COMPARED_LINES = 20_000
COMPARED_PLACES = 200
SHOWN_CHARACTERS = 200
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """One replacement that is wanted: `old` by `new`, at every place or at the only one."""

    old: str
    new: str
    everywhere: bool = False


@dataclass(frozen=True)
class Replaced:
    """A text after the replacement, and the numbers of the lines (from 1) where the passage stood."""

    text: str
    lines: list[int]


def replace_all_of(text: str, changes: Sequence[Change], name: str) -> Replaced:
    """`text` after `changes`, one after the other, each on what the one before left; `name` is the file's.

    All or nothing: raises BadInput that names the change that does not fit, and why, if there is one.
    """
    now, lines = text, list[int]()
    for number, change in enumerate(changes, 1):
        try:
            done = replace(now, change.old, change.new, name, everywhere=change.everywhere)
        except BadInput as error:
            if len(changes) == 1:
                raise
            raise BadInput(
                f"Nothing was changed: edit {number} of {len(changes)} does not fit. {error}"
                f"{_undone_by(text, now, change.old, number)}"
            ) from error
        now, lines = done.text, lines + done.lines
    return Replaced(now, lines)


def _undone_by(before: str, now: str, old: str, number: int) -> str:
    if number == 1 or not old or old in now or old not in before:
        return ""
    return " It stood there before the edits above it: they work one after the other, so name what they leave."


def replace(text: str, old: str, new: str, name: str, *, everywhere: bool = False) -> Replaced:
    """`text` with the passage `old` replaced by `new`; `name` is the file's, for the sentences.

    Line breaks in `old` and `new` match and become those of the text, so that a file with CRLF keeps it. Raises
    BadInput when the passage is not there, or stands at several places and `everywhere` is false.
    """
    if not old:
        raise BadInput("old_text is empty; accepted: the passage to replace, exactly as in the file")
    for newline in _newlines_by_use(text):
        wanted, given = _with_newline(old, newline), _with_newline(new, newline)
        if wanted not in text:
            continue
        if wanted == given:
            raise BadInput("old_text and new_text are the same; nothing would change")
        lines = _places(text, wanted)
        if len(lines) > 1 and not everywhere:
            raise BadInput(
                f"{name}: old_text stands at {len(lines)} places (lines {_some(lines)}); accepted: a passage that "
                "stands once. Add lines around it, or set replace_all."
            )
        return Replaced(text.replace(wanted, given), lines)
    raise BadInput(f"{name}: old_text is not in the file. {_hint(text, old)}")


def _newlines_by_use(text: str) -> list[str]:
    windows = text.count("\r\n")
    uses = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
    return sorted(uses, key=lambda newline: -uses[newline])


def _with_newline(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)


def _places(text: str, passage: str) -> list[int]:
    # Overlapping places count: "aa" stands twice in "aaa", and only one of the two is meant.
    lines, line, start, at = [], 1, 0, text.find(passage)
    while at >= 0:
        line += len(re.findall(r"\r\n|\n|\r", text[start:at]))
        lines.append(line)
        start, at = at, text.find(passage, at + 1)
    return lines


def _some(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")


def _hint(text: str, old: str) -> str:
    if _NUMBERED.match(old):
        return "It begins with a line number as shown by read; leave the numbers and the tab after them out."
    lines = text.splitlines()[:COMPARED_LINES]
    wanted = [line for line in old.splitlines() if line.strip()]
    if not wanted:
        return "It is white space only; accepted: a passage with visible text."
    squeezed = " ".join(wanted[0].split())
    by_squeezed: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        by_squeezed.setdefault(" ".join(line.split()), number)
    if number := by_squeezed.get(squeezed, 0):
        if wanted[0] in lines:
            return _where_it_parts(lines, old)
        return f"Line {number} differs from it in white space only: {lines[number - 1][:SHOWN_CHARACTERS]!r}"
    close = get_close_matches(squeezed, by_squeezed, n=3, cutoff=0.6)
    shown = "; ".join(
        f"line {by_squeezed[match]}: {lines[by_squeezed[match] - 1][:SHOWN_CHARACTERS]!r}" for match in close
    )
    return f"Closest lines: {shown}" if shown else "No line of the file is close to its first line; read it first."


def _where_it_parts(lines: list[str], old: str) -> str:
    passage = old.splitlines()
    while not passage[0].strip():
        del passage[0]
    starts = [number for number, line in enumerate(lines) if line == passage[0]][:COMPARED_PLACES]
    start, same = max(((place, _agreement(lines[place:], passage)) for place in starts), key=lambda found: found[1])
    told = f"Its first line stands at line {start + 1}, but what follows there differs"
    if same == len(passage):
        return f"{told}: read that part again."
    wanted = passage[same][:SHOWN_CHARACTERS]
    if start + same >= len(lines):
        return f"{told}: the file ends before {wanted!r}."
    return f"{told}: line {start + same + 1} is {lines[start + same][:SHOWN_CHARACTERS]!r}, not {wanted!r}."


def _agreement(lines: list[str], passage: list[str]) -> int:
    """How many lines of `passage` stand at the start of `lines`; its last one may go on there."""
    for number, wanted in enumerate(passage):
        is_last = number == len(passage) - 1
        if number >= len(lines) or not (lines[number] == wanted or (is_last and lines[number].startswith(wanted))):
            return number
    return len(passage)
