"""The transcript is a chain: what was said in the order in which the model is to read it."""

from datetime import timedelta
from typing import Any

from app.sessions import calls, deposit, session, transcript
from app.sessions.calls import CallState
from app.sessions.transcript import NewCall
from app.tables import messages
from tests.unit.house import RUN, House, message, run_id


async def say(house: House, text: str, key: str, session_id: str = "S", attach: bool = True) -> int:
    with house.tx() as tx:
        stored = deposit.deposit(tx, message(text, key), key, new_session_id=session_id, now=house.clock.now())
        if attach:
            deposit.attach_open(tx, stored.session_id)
    return stored.message_id


async def answer(
    house: House, text: str, parent: int | None, step: str = "think#0", run: str = RUN, new_calls: Any = ()
) -> int:
    with house.tx() as tx:
        return transcript.record_assistant(
            tx,
            "S",
            run_id=run,
            step_key=step,
            parent=parent,
            text=text,
            new_calls=new_calls,
            data={"model": "m"},
            now=house.clock.now(),
        )


async def read(house: House, head: int | None) -> list[tuple[str, str]]:
    with house.tx() as tx:
        return [(entry.role, entry.text) for entry in transcript.load(tx, "S", head)]


def wanted(step_key: str, name: str = "look", provider_id: str = "call_1") -> NewCall:
    return NewCall(step_key=step_key, provider_id=provider_id, name=name, arguments="{}", effect="read")


async def test_a_message_that_came_in_while_the_model_thought_stands_behind_the_answer(house: House) -> None:
    first = await say(house, "one", "k1")
    second = await say(house, "two", "k2", attach=False)
    said = await answer(house, "to one", first)
    assert second < said
    with house.tx() as tx:
        head = deposit.attach_open(tx, "S")
    assert head == second
    assert await read(house, head) == [("user", "one"), ("assistant", "to one"), ("user", "two")]
    third = await answer(house, "to two", head, "think#1")
    assert [text for _, text in await read(house, third)] == ["one", "to one", "two", "to two"]


async def test_an_older_head_gives_the_conversation_as_it_stood_there(house: House) -> None:
    first = await say(house, "one", "k1")
    said = await answer(house, "to one", first)
    await say(house, "two", "k2")
    assert await read(house, said) == [("user", "one"), ("assistant", "to one")]
    assert await read(house, first) == [("user", "one")]
    assert await read(house, None) == []
    assert await read(house, 999) == []


async def test_what_was_not_attached_is_not_shown(house: House) -> None:
    first = await say(house, "one", "k1")
    await say(house, "two", "k2", attach=False)
    assert await read(house, first) == [("user", "one")]


async def test_at_most_the_newest_of_a_long_conversation_are_read(house: House, monkeypatch: Any) -> None:
    monkeypatch.setattr(transcript, "WINDOW", 4)
    monkeypatch.setattr(transcript, "CHAIN", transcript._chain())
    head: int | None = None
    for number in range(6):
        head = await say(house, str(number), f"k{number}")
    assert [text for _, text in await read(house, head)] == ["2", "3", "4", "5"]


async def test_calls_come_with_their_message_in_their_order(house: House) -> None:
    first = await say(house, "one", "k1")
    one = await answer(house, "", first, "think#0", new_calls=[wanted("tool#0.0"), wanted("tool#0.1", "note")])
    two = await answer(house, "", one, "think#1", new_calls=[wanted("tool#1.0", "push")])
    with house.tx() as tx:
        record = calls.find(tx, RUN, "tool#0.1")
        assert record is not None
        calls.finish(tx, record.id, ok=True, result="done\x00\ud800", now=house.clock.now())
        entries = transcript.load(tx, "S", two)
    assert [[c.name for c in entry.calls] for entry in entries] == [[], ["look", "note"], ["push"]]
    assert [c.state for c in entries[1].calls] == [CallState.PLANNED, CallState.FINISHED]
    assert entries[1].calls[1].result == "done?"


async def test_the_same_provider_id_twice_is_only_data(house: House) -> None:
    first = await say(house, "one", "k1")
    head = await answer(house, "", first, new_calls=[wanted("tool#0.0"), wanted("tool#0.1")])
    with house.tx() as tx:
        assert transcript.planned_calls(tx, head) == [("tool#0.0", "look", "{}"), ("tool#0.1", "look", "{}")]


async def test_a_step_finds_its_own_record_and_no_other(house: House) -> None:
    first = await say(house, "one", "k1")
    head = await answer(house, "words", first, "think#2")
    with house.tx() as tx:
        assert transcript.find_step(tx, RUN, "think#2") == head
        assert transcript.find_step(tx, RUN, "think#1") is None
        assert transcript.find_step(tx, run_id(5), "think#2") is None


async def test_recent_lines_are_in_order_and_without_empty_ones(house: House) -> None:
    first = await say(house, "one", "k1")
    head = await answer(house, "", first, new_calls=[wanted("tool#0.0")])
    house.clock.advance(5)
    await answer(house, "two", head, "think#1")
    with house.tx() as tx:
        lines = transcript.recent(tx, "S", 10)
        assert [line[:2] for line in lines] == [("user", "one"), ("assistant", "two")]
        assert lines[1][2] - lines[0][2] == timedelta(seconds=5) and lines[0][2].tzinfo is not None
        assert [line[1] for line in transcript.recent(tx, "S", 1)] == ["two"]


async def test_a_draft_stays_what_it_was_otherwise(house: House) -> None:
    first = await say(house, "one", "k1")
    head = await answer(house, "words", first)
    with house.tx() as tx:
        transcript.mark_draft(tx, head)
        (_, entry) = transcript.load(tx, "S", head)
        assert entry.data == {"model": "m", "draft": True}
        assert transcript.text_of(tx, head) == "words"
        assert transcript.text_of(tx, 999) == ""


async def test_surrogates_and_nul_never_reach_the_file(house: House) -> None:
    first = await say(house, "a\x00b\udc80c", "k1")
    head = await answer(house, "x\ud800\x00", first, new_calls=[wanted("tool#0.0", "lo\ud800ok")])
    with house.tx() as tx:
        texts = [entry.text for entry in transcript.load(tx, "S", head)]
    assert texts == ["ab?c", "x?"]


async def test_other_sessions_are_not_read(house: House) -> None:
    await say(house, "mine", "k1")
    with house.tx() as tx:
        other = message("theirs", "k2", session_key="test:other")
        deposit.deposit(tx, other, "k2", new_session_id="T", now=house.clock.now())
        theirs = deposit.attach_open(tx, "T")
        assert [e.text for e in transcript.load(tx, "T", theirs)] == ["theirs"]
        assert session.count_messages(tx, "T") == 1
    assert [row.text for row in house.rows(messages.select().where(messages.c.session_id == "S"))] == ["mine"]
