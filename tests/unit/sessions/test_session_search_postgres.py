"""The same search on PostgreSQL's own text index, in TEST_POSTGRES_URL (a database that may be filled)."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import insert, text

from app.db import Database, Tx
from app.migrate import migrate
from app.sessions.search import PastConversations, search
from app.tables import messages, sessions

URL = os.environ.get("TEST_POSTGRES_URL", "")
DAY = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.skipif(not URL, reason="TEST_POSTGRES_URL names no PostgreSQL database")


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = Database(URL)
    await migrate(opened)
    yield opened
    await opened.close()


def said(tx: Tx, key: str, *texts: str, closed: bool = False) -> None:
    name = uuid4().hex
    tx.execute(insert(sessions).values(id=name, key=key, created_at=DAY, closed_at=DAY if closed else None))
    for number, words in enumerate(texts):
        at = DAY + timedelta(minutes=number)
        row = {"session_id": name, "role": "user", "text": words, "data": {}, "created_at": at}
        tx.execute(insert(messages).values(row))


async def test_all_words_then_parts_then_any_and_nobody_elses(database: Database) -> None:
    mine, yours = f"test:{uuid4().hex}", f"test:{uuid4().hex}"
    await database.write(said, mine, "The door code is 4711.", "Rain tomorrow.", closed=True)
    await database.write(said, mine, "A door that creaks.")
    await database.write(said, yours, "The door code is 9999.")
    past = PastConversations(database, mine)
    assert [one.snippet for one in await past.search("code door", 5)] == ["The door code is 4711."]
    assert [one.snippet for one in await past.search("ain tomorr", 5)] == ["Rain tomorrow."]
    assert {one.snippet for one in await past.search("rain creaks", 5)} == {"Rain tomorrow.", "A door that creaks."}
    assert await past.search("9999", 5) == []


@pytest.mark.parametrize(
    "words", ["a & b | !c:*", "'); DROP TABLE messages; --", "(", "\\", "%_", "\ud800\x00", "ü 🦊"]
)
async def test_any_text_may_be_asked_for(database: Database, words: str) -> None:
    key = f"test:{uuid4().hex}"
    await database.write(said, key, "plain words")
    await PastConversations(database, key).search(words, 5)


async def test_the_index_is_used(database: Database) -> None:
    def plan(tx: Tx) -> str:
        tx.execute(text("SET LOCAL enable_seqscan = off"))
        asked = "SELECT id FROM messages WHERE to_tsvector('simple', left(text, 100000)) @@ plainto_tsquery('a')"
        return "\n".join(row[0] for row in tx.execute(text("EXPLAIN " + asked)))

    assert "messages_search" in await database.read(plan)
    assert await database.read(search, "test:nobody", "door", 5) == []
