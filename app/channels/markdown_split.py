"""Cuts markdown into pieces that are markdown each: no fence is left open, none begins in the middle. Pure."""

import re
from dataclasses import dataclass, field

from app.channels.split import border

FENCE = re.compile(r"([ \t>]*)(`{3,40}|~{3,40})([^\n]*)")
MAX_REPEATED = 120
"""A line that opens a fence and is longer is not repeated in full where the fence goes on."""


@dataclass(frozen=True)
class Fence:
    """An open block of code: the line that opens it again, and the one that closes it."""

    opening: str
    closing: str

    @property
    def cost(self) -> int:
        return len(self.closing) + 1


@dataclass
class _Piece:
    """The piece at hand: its lines, their length with the breaks between them, and the best place to end it early."""

    lines: list[str] = field(default_factory=list)
    length: int = 0
    blank: int = 0

    def add(self, line: str) -> None:
        self.length += len(line) + (1 if self.lines else 0)
        self.lines.append(line)


def split_markdown(text: str, limit: int) -> list[str]:
    """Pieces of at most `limit` characters (200 or more), cut at blank lines where that leaves no crumbs.

    The white space at a cut is dropped; a block of code goes on in a fence of the same kind. Total.
    """
    pieces: list[str] = []
    piece, fence = _Piece(), None
    for line in text.split("\n"):
        rest: str | None = line
        while rest is not None:
            after = _after(rest, fence)
            room = limit - piece.length - (1 if piece.lines else 0) - (after.cost if after else 0)
            if len(rest) <= room:
                if fence is None and not rest.strip() and piece.length >= limit // 2:
                    piece.blank = len(piece.lines)
                piece.add(rest)
                fence, rest = after, None
            elif piece.blank:
                pieces.append("\n".join(piece.lines[: piece.blank]))
                piece = _piece_of(piece.lines[piece.blank + 1 :])
            elif len(piece.lines) > (1 if fence else 0):
                pieces.append(_closed(piece, fence))
                piece = _piece_of([fence.opening] if fence else [])
            else:  # one line alone is too long
                cut = border(rest, 0, max(1, room))
                piece.add(rest[:cut])
                rest = rest[cut:]
    pieces.append(_closed(piece, fence))
    return [shorn for one in pieces if (shorn := _shorn(one)).strip()]


def _after(line: str, fence: Fence | None) -> Fence | None:
    """The fence that is open behind a line."""
    found = FENCE.fullmatch(line)
    if found is None:
        return fence
    indent, marker, info = found.groups()
    if fence is not None:
        closes = not info.strip() and marker.startswith(fence.closing.lstrip(" \t>"))
        return None if closes else fence
    if marker[0] == "`" and "`" in info:
        return None  # code in a line of text
    opening = line if len(line) <= MAX_REPEATED else f"{indent[:40]}{marker}"
    return Fence(opening, f"{indent[:40]}{marker}")


def _piece_of(lines: list[str]) -> _Piece:
    piece = _Piece()
    for line in lines:
        piece.add(line)
    return piece


def _closed(piece: _Piece, fence: Fence | None) -> str:
    return "\n".join([*piece.lines, *([fence.closing] if fence else [])])


def _shorn(piece: str) -> str:
    """Without the blank lines at both ends; the first line keeps its indentation."""
    return re.sub(r"\A(?:[ \t\r]*\n)+", "", piece).rstrip()
