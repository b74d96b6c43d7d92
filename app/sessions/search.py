"""Looking for what was said before: messages of all sessions of one key, the open one and the closed ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, column, func, select, table, text
from sqlalchemy.dialects.postgresql import TSQUERY

from app.db import Database, Tx, moment
from app.events import safe_text
from app.tables import SEARCH, messages, sessions

MAX_WORDS = 12
WORD_CHARACTERS = 80
SNIPPET_CHARACTERS = 300
INDEXED_CHARACTERS = 100_000
SPOKEN = ("user", "assistant")


@dataclass(frozen=True)
class Found:
    """One message that fits; `snippet` is the part of its text around the first word that was looked for."""

    session_id: str
    at: datetime
    role: str
    snippet: str


@dataclass(frozen=True)
class PastConversations:
    """The past of one session key. Implements `History` of the tool contract."""

    db: Database
    session_key: str

    async def search(self, words: str, limit: int) -> list[Found]:
        return await self.db.read(search, self.session_key, words, limit)


def search(tx: Tx, session_key: str, words: str, limit: int) -> list[Found]:
    """At most `limit` messages of the sessions of `session_key` that fit `words`, best first.

    Of nobody else's: a key belongs to one person or group. Any text may be asked for, nothing in it is an operator.
    Messages with all words (or words that begin so) come first; only if there are none, those with parts of words,
    then those with any of the words.
    """
    wanted = [word[:WORD_CHARACTERS] for word in safe_text(words).split()][:MAX_WORDS]
    if not wanted or limit < 1:
        return []
    for attempt in _attempts(tx):
        if rows := attempt(tx, session_key, wanted, limit):
            return [_found(row, wanted) for row in rows]
    return []


Attempt = Callable[[Tx, str, list[str], int], Sequence[Any]]


def rebuild(tx: Tx) -> None:
    """Make the index anew: in the old one, words of deleted messages stay until their place is needed."""
    if tx.dialect.name == "sqlite" and _has_index(tx):
        tx.exec_driver_sql(f"INSERT INTO {SEARCH}({SEARCH}) VALUES ('rebuild')")  # noqa: S608 - a name of ours


def _has_index(tx: Tx) -> bool:
    return bool(tx.scalar(text("SELECT 1 FROM sqlite_master WHERE name = :name"), {"name": SEARCH}))


def _attempts(tx: Tx) -> list[Attempt]:
    if tx.dialect.name == "postgresql":
        return [_postgres_all, _parts_of_words, _postgres_any]
    if _has_index(tx):
        return [_sqlite_all, _parts_of_words, _sqlite_any]
    return [_parts_of_words]  # a library without FTS5: slower, but not mute


def _rows(tx: Tx, key: str, fits: ColumnElement[bool], best: Sequence[Any], limit: int, source: Any = None) -> Any:
    query = (
        select(messages.c.session_id, messages.c.created_at, messages.c.role, messages.c.text)
        .select_from(messages.join(sessions, sessions.c.id == messages.c.session_id) if source is None else source)
        .where(sessions.c.key == key, messages.c.role.in_(SPOKEN), fits)
        .order_by(*best, messages.c.id.desc())
        .limit(limit)
    )
    return tx.execute(query).all()


def _sqlite_all(tx: Tx, key: str, words: list[str], limit: int) -> Sequence[Any]:
    return _sqlite(tx, key, " ".join(map(_phrase, words)), limit)


def _sqlite_any(tx: Tx, key: str, words: list[str], limit: int) -> Sequence[Any]:
    return _sqlite(tx, key, " OR ".join(map(_phrase, words)), limit)


def _phrase(word: str) -> str:
    # In double quotes FTS5 knows no operators; the star after them makes the last token of the phrase a prefix.
    return '"' + word.replace('"', '""') + '"*'


def _sqlite(tx: Tx, key: str, match: str, limit: int) -> Sequence[Any]:
    index = table(SEARCH, column("rowid"), column("rank"))
    source = index.join(messages, messages.c.id == index.c.rowid).join(sessions, sessions.c.id == messages.c.session_id)
    fits = column(SEARCH).op("MATCH", is_comparison=True)(match)
    rows: Sequence[Any] = _rows(tx, key, fits, [index.c.rank], limit, source)
    return rows


def _postgres_all(tx: Tx, key: str, words: list[str], limit: int) -> Sequence[Any]:
    return _postgres(tx, key, func.plainto_tsquery("simple", " ".join(words)), limit)


def _postgres_any(tx: Tx, key: str, words: list[str], limit: int) -> Sequence[Any]:
    asked = func.plainto_tsquery("simple", " ".join(words))
    any_of = func.replace(asked.cast(messages.c.text.type), "&", "|").cast(TSQUERY)
    return _postgres(tx, key, any_of, limit)


def _postgres(tx: Tx, key: str, asked: Any, limit: int) -> Sequence[Any]:
    # Written as in the index, or the index is not used.
    vector = func.to_tsvector(text("'simple'"), func.left(messages.c.text, text(str(INDEXED_CHARACTERS))))
    rows: Sequence[Any] = _rows(tx, key, vector.op("@@")(asked), [func.ts_rank(vector, asked).desc()], limit)
    return rows


def _parts_of_words(tx: Tx, key: str, words: list[str], limit: int) -> Sequence[Any]:
    """Without an index, and so also words inside of words and scripts that put no spaces between them."""
    fits = and_(*(messages.c.text.icontains(word, autoescape=True) for word in words))
    rows: Sequence[Any] = _rows(tx, key, fits, [], limit)
    return rows


def _found(row: Any, words: list[str]) -> Found:
    return Found(row.session_id, moment(row.created_at) or row.created_at, row.role, snippet(row.text, words))


def snippet(whole: str, words: Sequence[str]) -> str:
    """At most SNIPPET_CHARACTERS of `whole`, on one line, around the first of `words` that is in it."""
    flat = " ".join(whole.split())
    if len(flat) <= SNIPPET_CHARACTERS:
        return flat
    lowered = flat.lower()
    places = [place for word in words if (place := lowered.find(word.lower())) >= 0]
    start = max(0, min(min(places, default=0) - SNIPPET_CHARACTERS // 3, len(flat) - SNIPPET_CHARACTERS))
    end = start + SNIPPET_CHARACTERS
    return ("..." if start else "") + flat[start:end].strip() + ("..." if end < len(flat) else "")
