"""Text at the tool boundary: cleaned of what a terminal would act on, and cut to a size a model can read."""

import re
from dataclasses import dataclass

LIMIT_BYTES = 16_384

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(
    r"""
    (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]         # CSI: colours, cursor movements, erasing
    | \x1b\] [^\x07\x1b]* (?:\x07|\x1b\\)       # OSC: titles, links
    | \x1b[PX^_] [^\x1b]* \x1b\\                # DCS, SOS, PM, APC: images, device strings
    | \x1b [ -/]* [0-~]                         # everything of two characters, and unended ones of the above
    """,
    re.VERBOSE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """`text` as a person would see it printed. Takes any text; cleaning twice changes nothing more.

    Escape sequences and control characters go, a progress bar drawn over itself with carriage returns keeps its last
    state, backspaces take back what stood before them, and lone surrogates (which no wire accepts) become U+FFFD.
    """
    text = _SURROGATE.sub("\ufffd", text)
    text = _ESCAPE.sub("", text)
    text = re.sub(r"\r+\n", "\n", text)
    if "\r" in text or "\b" in text:
        text = "\n".join(_settled(line) for line in text.split("\n"))
    return _CONTROL.sub("", text)


def _settled(line: str) -> str:
    states = [state for state in line.split("\r") if state]
    last = states[-1] if states else ""
    return _backspaced(last) if "\b" in last else last


def _backspaced(line: str) -> str:
    kept: list[str] = []
    for character in line:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


@dataclass(frozen=True)
class Capped:
    """A text of at most the limit, and whether something was left out of it."""

    text: str
    was_cut: bool


def cap(text: str, limit_bytes: int = LIMIT_BYTES, artifact: str | None = None) -> Capped:
    """Head and tail of `text` in at most `limit_bytes` of UTF-8, with a line between them that says what is missing.

    `artifact` names where the whole text is kept. Takes any text and any limit: when not even the line fits, only
    the head is given.
    """
    data = _SURROGATE.sub("\ufffd", text).encode()
    if len(data) <= limit_bytes:
        return Capped(data.decode(), False)
    # The line is at its longest when nothing is kept, so its final form always fits into the room reserved here.
    room = limit_bytes - len(_left_out(len(data), artifact).encode())
    if room < 0:
        return Capped(whole_characters(data[: max(0, limit_bytes)]), True)
    head = whole_characters(data[: room - room // 2])
    tail = whole_characters(data[len(data) - room // 2 :])
    missing = len(data) - len(head.encode()) - len(tail.encode())
    return Capped(head + _left_out(missing, artifact) + tail, True)


def _left_out(count: int, artifact: str | None) -> str:
    where = f"the whole is in {artifact}" if artifact else "ask for less, or for a part"
    return f"\n[... {count} bytes left out here; {where} ...]\n"


def whole_characters(data: bytes) -> str:
    """A slice of UTF-8 as text: characters cut in two at either end are dropped, wrong bytes inside are replaced."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    text = data[start:]
    for length in range(1, min(3, len(text)) + 1):
        lead = text[-length]
        if lead & 0xC0 != 0x80:
            wanted = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            text = text[:-length] if wanted > length else text
            break
    return text.decode(errors="replace")
