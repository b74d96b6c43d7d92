"""Learnings: what the model found worth knowing, counted when it is found again, and lines of MEMORY.md in the end."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import select, update

from app.db import Tx, insert_if_absent, moment
from app.events import wire_safe
from app.tables import learnings

PROMOTE_AT = 3
"""How often something is to be found before it becomes a line of MEMORY.md by itself."""

ALIKE = 0.8
KEPT_KEYS = 50
HEADING = "## Learned"
MARK = re.compile(r"<!-- learned (\w+) -->\s*$")

FILLERS = frozenset(
    "a an the is are was were be been of in on at for with and or that this it its as by has have had do does did "
    "he she they them his her their so very just".split()
)
TURNS = (
    "not never no without cannot nor neither nobody nothing only except unless until if before after must may might "
    "should nicht nie niemals kein keine keinen keiner ohne nur außer wenn vor nach pas ne jamais sans sauf seulement "
    "si avant nunca jamás sin ni solo salvo antes não nem sem exceto só mai senza non"
)
"""Words with which a sentence says something else, in the languages that the service speaks."""


class LearningState(StrEnum):
    """A learning is kept until it is promoted into MEMORY.md, or dropped for good."""

    KEPT = "kept"
    PROMOTED = "promoted"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Learning:
    """One learning. `words` is its normal form, `seen` the calls that found it, `count` how many there were."""

    id: str
    scope: str
    text: str
    words: str
    seen: tuple[str, ...]
    count: int
    state: str
    first_at: datetime
    last_at: datetime

    @classmethod
    def of(cls, row: Any) -> "Learning":
        values = {field.name: getattr(row, field.name) for field in fields(cls)}
        times = {name: moment(values[name]) for name in ("first_at", "last_at")}
        return cls(**values | times | {"seen": tuple(values["seen"])})


def words_of(text: str) -> str:
    """The normal form of a text: its words in their order, in lower case without accents, endings of the plural and
    fillers; a text without a word is its own."""
    plain = text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("n't", " not")
    words = (_singular(word) for word in re.findall(r"\w+", _without_accents(plain)))
    return " ".join(word for word in words if word not in FILLERS) or plain.strip()


def _without_accents(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_TURNS = frozenset(words_of(TURNS).split())


def is_alike(one: str, other: str) -> bool:
    """Whether two normal forms say about the same: the longer one is the shorter with few words more, none of which
    is a number or turns the meaning. A word in another's place, or another order, may say the contrary."""
    short, long = sorted((one.split(), other.split()), key=len)
    rest = iter(long)
    if not all(word in rest for word in short):
        return False
    more = Counter(long) - Counter(short)
    if any(word in _TURNS or any(map(str.isdigit, word)) for word in more):
        return False
    return len(short) >= ALIKE * len(long)


def record(tx: Tx, learning_id: str, text: str, scope: str, key: str, now: datetime) -> Learning:
    """Keep `text`, or count it for the one of its scope that says about the same; once for a call's `key`."""
    words = words_of(text)
    rows = tx.execute(select(learnings).where(learnings.c.scope == scope).order_by(learnings.c.first_at)).all()
    known = next((Learning.of(row) for row in rows if is_alike(row.words, words)), None)
    if known is None:
        fresh = Learning(learning_id, scope, wire_safe(text), words, (key,), 1, LearningState.KEPT, now, now)
        insert_if_absent(tx, learnings, asdict(fresh) | {"seen": [key]})
        return fresh
    if key in known.seen:
        return known
    seen = (*known.seen, key)[-KEPT_KEYS:]
    values = {"seen": list(seen), "count": known.count + 1, "last_at": now}
    tx.execute(update(learnings).where(learnings.c.id == known.id).values(values))
    return replace(known, seen=seen, count=known.count + 1, last_at=now)


def find(tx: Tx, learning_id: str) -> Learning | None:
    row = tx.execute(select(learnings).where(learnings.c.id == learning_id)).first()
    return None if row is None else Learning.of(row)


def listed(tx: Tx, limit: int = 200) -> list[Learning]:
    """Those that are not dropped, what was found most often first."""
    query = select(learnings).where(learnings.c.state != LearningState.DROPPED)
    rows = tx.execute(query.order_by(learnings.c.count.desc(), learnings.c.last_at.desc(), learnings.c.id).limit(limit))
    return [Learning.of(row) for row in rows]


RIPE = (
    select(learnings)
    .where(learnings.c.state == LearningState.KEPT, learnings.c.count >= PROMOTE_AT)
    .order_by(learnings.c.first_at, learnings.c.id)
)


def ripe(tx: Tx) -> list[Learning]:
    """Those found often enough to be promoted, the oldest first."""
    return [Learning.of(row) for row in tx.execute(RIPE)]


def move(tx: Tx, learning_id: str, state: LearningState) -> None:
    tx.execute(update(learnings).where(learnings.c.id == learning_id).values(state=state))


def with_lines(memory: str, found: Sequence[Learning], limit: int) -> tuple[str, list[str]]:
    """MEMORY.md with a line for each of these under a heading of its own, and the ids of those that have one.

    At most `limit` characters: to make room the oldest lines that were made here go, and nothing that people wrote.
    """
    present = [found_id for line in memory.splitlines() if (found_id := _id_of(line))]
    fresh = [one for one in found if one.id not in present]
    lines = memory.rstrip().splitlines()
    taken = [one.id for one in found if one.id in present]
    for one in fresh:
        grown = _made_room(_insert(lines, f"- {' '.join(one.text.split())} <!-- learned {one.id} -->"), limit, one.id)
        if grown is not None:
            lines, taken = grown, [*taken, one.id]
    return "\n".join(lines) + "\n", taken


def without_line(memory: str, learning_id: str) -> str:
    """MEMORY.md without the line of a learning, as far as that is as it was made here."""
    return "".join(line for line in memory.splitlines(keepends=True) if _id_of(line) != learning_id)


def _id_of(line: str) -> str:
    found = MARK.search(line)
    return found[1] if found else ""


def _insert(lines: Sequence[str], line: str) -> list[str]:
    """Put a line at the end of the section of learnings, which is made if it is not there."""
    if HEADING not in lines:
        return [*lines, *([""] if lines else []), HEADING, "", line]
    begin = lines.index(HEADING) + 1
    following = (place for place in range(begin, len(lines)) if lines[place].startswith("#"))
    end = next(following, len(lines))
    while end > begin and not lines[end - 1].strip():
        end -= 1
    return [*lines[:end], *([""] if end == begin else []), line, *lines[end:]]


def _made_room(lines: list[str], limit: int, spared: str) -> list[str] | None:
    while len("\n".join(lines)) + 1 > limit:
        oldest = next((place for place, line in enumerate(lines) if _id_of(line) not in ("", spared)), None)
        if oldest is None:
            return None
        lines = lines[:oldest] + lines[oldest + 1 :]
    return lines
