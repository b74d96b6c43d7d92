"""What was said before is found, by whom it was said to, and by nobody else."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db import Database, Tx
from app.migrate import SCRIPTS, migrate
from app.sessions import search as search_module
from app.sessions.search import Found, PastConversations, search, snippet
from app.tables import messages, sessions
from tests.unit.house import House, in_thread

DAY = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
MINE, YOURS = "telegram:1:7", "telegram:1:8"


def said(tx: Tx, key: str, *texts: str, role: str = "user", session_id: str = "", closed: bool = False) -> None:
    name = session_id or f"s-{key}"
    if tx.scalar(sa.select(sessions.c.id).where(sessions.c.id == name)) is None:
        row = {"id": name, "key": key, "created_at": DAY, "closed_at": DAY if closed else None}
        tx.execute(sa.insert(sessions).values(row))
    count = tx.scalar(sa.select(sa.func.count()).select_from(messages)) or 0
    for number, text in enumerate(texts, count):
        at = DAY + timedelta(minutes=number)
        row = {"session_id": name, "role": role, "text": text, "data": {}, "created_at": at}
        tx.execute(sa.insert(messages).values(row))


def snippets(tx: Tx, words: str, key: str = MINE, limit: int = 10) -> list[str]:
    return [found.snippet for found in search(tx, key, words, limit)]


def without_fts(tx: Tx) -> None:
    for name in ("insert", "delete", "update"):
        tx.exec_driver_sql(f"DROP TRIGGER messages_search_{name}")
    tx.exec_driver_sql("DROP TABLE messages_search")


@pytest.fixture(params=["fts5", "like"])
def either(request: pytest.FixtureRequest, house: House) -> House:
    """A house whose SQLite has full text search, and one whose SQLite has not."""
    if request.param == "like":
        with house.tx() as tx:
            without_fts(tx)
    return house


def test_open_and_closed_sessions_of_the_key_are_searched(either: House) -> None:
    with either.tx() as tx:
        said(tx, MINE, "The door code is 4711.", session_id="old", closed=True)
        said(tx, MINE, "I noted the door code.", role="assistant", session_id="new")
        found = search(tx, MINE, "door code", 10)
    assert {(f.session_id, f.role) for f in found} == {("old", "user"), ("new", "assistant")}
    assert Found("old", DAY, "user", "The door code is 4711.") in found


# TRAPS, Life and death: "One user's memory shown to another -> memory belongs to a principal".
def test_nobody_finds_what_another_said(either: House) -> None:
    with either.tx() as tx:
        said(tx, MINE, "my secret is blue")
        said(tx, YOURS, "your secret is red")
        said(tx, MINE + "0", "the secret of a key that begins alike")
        assert snippets(tx, "secret") == ["my secret is blue"]
        assert snippets(tx, "red") == []
        assert snippets(tx, "secret", key="telegram:1:%") == []


def test_case_and_beginnings_of_words_do_not_matter(either: House) -> None:
    with either.tx() as tx:
        said(tx, MINE, "Invoices are due on Friday", "nothing here")
        assert snippets(tx, "INVOICE frid") == ["Invoices are due on Friday"]


def test_all_words_come_before_any_word(house: House) -> None:
    with house.tx() as tx:
        said(tx, MINE, "red apple", "red car", "green car")
        assert snippets(tx, "red car") == ["red car"]
        assert set(snippets(tx, "green apple")) == {"red apple", "green car"}


def test_accents_and_scripts_without_spaces(house: House) -> None:
    with house.tx() as tx:
        said(tx, MINE, "Treffen im Café Müller", "明日の会議は三時です")
        assert snippets(tx, "cafe muller") == ["Treffen im Café Müller"]
        assert snippets(tx, "会議") == ["明日の会議は三時です"]


def test_only_what_was_spoken_and_only_so_much(either: House) -> None:
    with either.tx() as tx:
        said(tx, MINE, "word in a summary", role="summary")
        said(tx, MINE, *(f"word {n}" for n in range(20)))
        assert len(snippets(tx, "word", limit=5)) == 5
        assert snippets(tx, "summary") == []
        assert snippets(tx, "word", limit=0) == snippets(tx, " \n") == []


def test_the_index_follows_changes(house: House) -> None:
    with house.tx() as tx:
        said(tx, MINE, "the meeting is on Monday", "to be removed")
        tx.execute(sa.update(messages).where(messages.c.text.contains("Monday")).values(text="it is on Tuesday"))
        tx.execute(sa.delete(messages).where(messages.c.text == "to be removed"))
        tx.execute(sa.update(messages).values(state="answered"))
        assert snippets(tx, "tuesday") == ["it is on Tuesday"]
        assert snippets(tx, "monday") == snippets(tx, "removed") == []
        tx.exec_driver_sql("INSERT INTO messages_search(messages_search, rank) VALUES ('integrity-check', 1)")


SIGNS = [
    '"',
    "'",
    "*",
    "NEAR(",
    "AND",
    "OR",
    "NOT",
    "text:",
    "-",
    "^",
    "(",
    ")",
    "%",
    "_",
    "\\",
    "\0",
    "\ud800",
    "{a b}",
]
ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
WORDS = st.lists(st.one_of(ANYTHING, st.sampled_from(SIGNS)), max_size=6).map(" ".join)


@given(words=WORDS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_may_be_asked_for(house: House, words: str) -> None:
    """Quotes and operators are words like any other: nothing raises, and nobody else's message comes."""
    with house.tx() as tx:
        said(tx, MINE, 'say "hello" AND (wave)')
        said(tx, YOURS, f"another says {words}".encode(errors="replace").decode().replace("\0", ""))
        assert {found.session_id for found in search(tx, MINE, words, 5)} <= {f"s-{MINE}"}
        tx.rollback()


def test_operators_are_looked_for_as_words(either: House) -> None:
    with either.tx() as tx:
        said(tx, MINE, 'he said "stop" twice', "100% sure", "a 100 percent")
        assert snippets(tx, '"stop" twice') == ['he said "stop" twice']
        assert "100% sure" in snippets(tx, "100%")


@given(st.text(max_size=900), st.lists(st.text(min_size=1, max_size=9), max_size=3))
def test_a_snippet_is_short_and_on_one_line(whole: str, words: list[str]) -> None:
    part = snippet(whole, words)
    assert len(part) <= search_module.SNIPPET_CHARACTERS + 6
    assert len(part.splitlines()) <= 1


def test_a_snippet_shows_the_word() -> None:
    assert "needle" in snippet("hay " * 500 + "a needle " + "hay " * 500, ["Needle"])
    assert snippet("hay " * 500, ["needle"]).startswith("hay hay")


def test_the_index_is_used_and_ten_thousand_messages_are_no_wait(house: House) -> None:
    with house.tx() as tx:
        said(tx, MINE, "the rare word")
        row = {"session_id": f"s-{MINE}", "role": "user", "data": {}, "created_at": DAY}
        tx.execute(sa.insert(messages), [row | {"text": f"common talk {n}"} for n in range(10_000)])
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        raw: Any = tx.connection.dbapi_connection
        raw.set_progress_handler(count, 1000)
        assert snippets(tx, "rare word") == ["the rare word"]
        raw.set_progress_handler(None, 0)
    assert steps < 20  # thousands of virtual machine steps; a scan takes hundreds


def test_a_database_with_messages_is_indexed_when_it_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "old.db"

    def at_revision(revision: str, before: Any = None) -> None:
        engine = sa.create_engine(f"sqlite:///{path}")
        with engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(SCRIPTS))
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            if before:
                before(connection)
        engine.dispose()

    at_revision("0001", lambda tx: said(tx, MINE, "said before the index was there"))
    at_revision("0002")
    database = sqlite3.connect(path)
    assert database.execute("SELECT rowid FROM messages_search WHERE messages_search MATCH 'before'").fetchall() == [
        (1,)
    ]
    database.close()


def test_a_library_without_fts5_gets_no_index_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sa.Connection.exec_driver_sql

    def refuse(self: Any, statement: str, *args: Any, **options: Any) -> Any:
        if "fts5" in statement:
            raise sa.exc.OperationalError(statement, None, Exception("no such module: fts5"))
        return real(self, statement, *args, **options)

    monkeypatch.setattr(sa.Connection, "exec_driver_sql", refuse)

    async def use() -> list[Found]:
        database = Database(f"sqlite:///{tmp_path / 'plain.db'}")
        await migrate(database)
        await database.write(said, MINE, "found all the same")
        found = await PastConversations(database, MINE).search("same", 3)
        await database.close()
        return found

    assert [found.snippet for found in in_thread(lambda: asyncio.run(use()))] == ["found all the same"]
