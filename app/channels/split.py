"""Cuts a text with entities into parts, at paragraph, line or word borders and never inside a character. Pure."""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from app.channels.channel import Part

MAX_UNITS = 4096
MAX_ENTITIES = 100
# Telegram also limits the size of all entities together (about 9,500 bytes, by observation): a long URL counts more.
URL_CHARS_PER_ENTITY = 90
JOINER = "\u200d"
LONGEST_CLUSTER_CHARS = 64

Entity = dict[str, Any]
"""A MessageEntity of the Bot API; offset and length count UTF-16 code units."""


def split(text: str, entities: Sequence[Entity]) -> list[Part]:
    """`{"text", "entities"}` per part. `entities` are in order of their offsets; those across a cut go on behind it."""
    offsets = [0, *accumulate(2 if ord(char) > 0xFFFF else 1 for char in text)]
    begins = [entity["offset"] for entity in entities]
    parts: list[Part] = []
    start = seen = 0
    open_entities: list[Entity] = []  # those that reach into the part at hand
    while start < len(text):
        end = bisect_right(offsets, offsets[start] + MAX_UNITS) - 1
        reached = bisect_left(begins, offsets[end])
        open_entities += entities[seen:reached]
        seen = reached
        end = _limit(offsets, open_entities, start, end)
        if end < len(text):
            end = border(text, start, end)
        if part := _part(text, offsets, open_entities, start, end):
            parts.append(part)
        open_entities = [e for e in open_entities if e["offset"] + e["length"] > offsets[end]]
        start = end
    return parts


def _limit(offsets: Sequence[int], entities: Sequence[Entity], start: int, end: int) -> int:
    """`end`, or the index before it where the entities become too many for one part."""
    weight = 0
    for entity in entities:
        weight += _weight(entity)
        at = bisect_left(offsets, entity["offset"])
        if weight > MAX_ENTITIES and at > start:
            return at
    return end


def _weight(entity: Entity) -> int:
    return 1 + len(entity.get("url", "")) // URL_CHARS_PER_ENTITY


def border(text: str, start: int, end: int) -> int:
    """The best place to cut at or before `end`; in the second half, so that parts do not become crumbs."""
    for separator in ("\n\n", "\n", " "):
        at = text.rfind(separator, (start + end) // 2, end)
        if at > start:
            return at + len(separator)
    for at in range(end, max(start, end - LONGEST_CLUSTER_CHARS), -1):
        if not _joined(text, at):
            return at
    return end


def _joined(text: str, at: int) -> bool:
    """Whether the characters around `at` are seen as one: an emoji of several, a flag, a letter with its accents."""
    after, before = text[at], text[at - 1]
    if JOINER in (before, after) or "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True
    if _is_flag_half(after):
        halves = 0
        while at - halves > 0 and _is_flag_half(text[at - halves - 1]):
            halves += 1
        return halves % 2 == 1
    return unicodedata.category(after) in ("Mn", "Me", "Mc")  # accents and variation selectors


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _part(text: str, offsets: Sequence[int], entities: Sequence[Entity], start: int, end: int) -> Part | None:
    """The part from `start` to `end` without the white space of the cut; None if it is blank, which is refused."""
    end = start + len(text[start:end].rstrip())
    start = end - len(text[start:end].lstrip("\r\n"))
    if not text[start:end].strip():
        return None
    first, last = offsets[start], offsets[end]
    inside = [e for e in entities if e["offset"] < last and e["offset"] + e["length"] > first]
    return {"text": text[start:end], "entities": [_clipped(e, first, last) for e in inside[:MAX_ENTITIES]]}


def _clipped(entity: Mapping[str, Any], first: int, last: int) -> Entity:
    begin, end = max(entity["offset"], first), min(entity["offset"] + entity["length"], last)
    return {**entity, "offset": begin - first, "length": end - begin}
