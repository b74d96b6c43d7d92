"""Texts in pieces that a model can take in at once. Pure."""

ENDS = ("\n\n", "\n", ". ", "! ", "? ", " ")
"""Where a text is cut, the best place first."""

LEFT_OUT = "\n\n[… {count:,} characters are left out here …]\n\n"


def pieces_of(text: str, size: int) -> list[str]:
    """`text` in pieces of at most `size` characters, cut where a paragraph, a line, a sentence or a word ends."""
    pieces, left = [], text.strip()
    while len(left) > size:
        end = _end(left, size)
        pieces.append(left[:end].rstrip())
        left = left[end:].lstrip()
    return [piece for piece in [*pieces, left] if piece]


def _end(text: str, size: int) -> int:
    """Where the first piece ends: never in its first half, or the pieces become too many."""
    found = ((text.rfind(mark, size // 2, size), len(mark)) for mark in ENDS)
    return next((place + length for place, length in found if place >= 0), size)


def shortened(text: str, size: int) -> str:
    """`text` with its middle left out, if it has more than `size` characters; it says how much that is."""
    if len(text) <= size:
        return text
    head, tail = size * 2 // 3, size // 3
    return text[:head] + LEFT_OUT.format(count=len(text) - head - tail) + text[len(text) - tail :]
