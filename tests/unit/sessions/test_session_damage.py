"""A record that cannot be read any more: it counts as empty, is reported, and stays as it is."""

import logging

import pytest
from sqlalchemy import text

from app.sessions import session, transcript
from tests.unit.house import House, run_id, whole_turn

BROKEN = '{"sender": "An'


# TRAPS, Context: "One bad line in a session file empties the whole session -> ... an unreadable record is skipped and
# reported, never overwritten".
async def test_a_damaged_record_takes_nothing_else_with_it(house: House, caplog: pytest.LogCaptureFixture) -> None:
    for number, words in enumerate(("one", "two"), 1):
        await whole_turn(house, words, f"k{number}", run_id(number))
    with house.tx() as tx:
        tx.execute(text("UPDATE messages SET data = :broken WHERE text = 'one'"), {"broken": BROKEN})

    with caplog.at_level(logging.ERROR):
        ending = await whole_turn(house, "three", "k3", run_id(3))

    assert ending.kind == "answered"
    said = [str(m["content"]) for m in house.model.requests[-1][1]]
    assert said[1:] == ["one", "Hello.", "two", "Hello.", "three"]
    assert any("cannot be read" in record.message and BROKEN in record.message for record in caplog.records)
    with house.tx() as tx:
        assert tx.scalar(text("SELECT data FROM messages WHERE text = 'one'")) == BROKEN


async def test_what_is_noted_on_it_keeps_what_it_was(house: House) -> None:
    await whole_turn(house)
    with house.tx() as tx:
        tx.execute(text("UPDATE messages SET data = :broken WHERE role = 'assistant'"), {"broken": BROKEN})
    session_id = await house.db.read(session.find, "test:chat")
    head = await house.db.read(session.head_of, session_id or "")
    await house.db.write(transcript.mark_draft, head or 0)
    with house.tx() as tx:
        kept = str(tx.scalar(text("SELECT data FROM messages WHERE role = 'assistant'")))
    assert '"draft": true' in kept and '{\\"sender\\": \\"An' in kept
