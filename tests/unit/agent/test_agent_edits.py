"""An edit of an unanswered message replaces it and steers; of an answered one it is a note; it never is a command."""

from typing import Any

import pytest

from app.agent.accept import accept
from app.agent.act import act
from app.agent.finish import finish
from app.agent.heartbeat.sweep import sweep
from app.agent.models.llm import Completion
from app.agent.think import think
from app.sessions import session
from app.sessions.edits import MARK
from app.tables import messages, sessions
from app.tables import turns as turn_rows
from tests.unit.house import House, ask, begin, message, run_id, whole_turn, wishes


async def edit(house: House, text: str, date: int = 100, key: str = "test:1", **changes: Any) -> list[str]:
    """Ids of the start signals that an edit sends."""
    before = len(house.sender.events)
    await accept(house.harness, message(text, key, edited=str(date), **changes))
    return [event["id"] for event in house.sender.events[before:]]


def texts(house: House) -> list[tuple[str, str]]:
    query = messages.select().where(messages.c.role == "user").order_by(messages.c.id)
    return [(row.text, row.state) for row in house.rows(query)]


async def test_before_any_model_saw_it_it_is_simply_replaced(house: House) -> None:
    await accept(house.harness, message("book a plain"))
    assert await edit(house, "book a plane", sent_at="2020-01-01T00:00:00+00:00") == ["test:1:edit-100"]
    (signal,) = house.sender.of("agent.message.received")[1:]
    assert (signal["data"]["message"], signal["data"]["steers"]) == ("book a plane", True)
    assert texts(house) == [("book a plane", "open")]


async def test_while_its_turn_runs_the_old_text_cannot_be_answered(house: House) -> None:
    """Row 22, also if the engine lost the newer start: the old run has no session any more."""
    flow = await begin(house, "book a plain")
    house.model.answers = [Completion("A plain is booked.")]
    thought = await think(house.harness, flow, ask())
    assert await edit(house, "book a plane") == ["test:1:edit-100"]
    done = {"key": "finish#1", "head": thought["head"], "text": "", "state": "finished"}
    assert (await finish(house.harness, flow, done))["kind"] in ("superseded", "stopped")
    assert texts(house) == [("book a plane", "open")]
    newer = await begin(house, "book a plane", "test:1", run_id(2))
    house.model.answers = [Completion("A plane is booked.")]
    await think(house.harness, newer, ask())
    assert [m["content"] for m in house.model.requests[-1][1] if m["role"] == "user"] == ["book a plane"]


async def test_what_was_done_before_the_edit_is_kept(house: House) -> None:
    flow = await begin(house, "look here")
    house.model.answers = [wishes(("look", {}))]
    await think(house.harness, flow, ask())
    await act(house.harness, flow, {"key": "tool#0.0", "name": "look"})
    await edit(house, "look there")
    newer = await begin(house, "look there", "test:1", run_id(2))
    house.model.answers = [Completion("Seen.")]
    await think(house.harness, newer, ask())
    shown = [m["content"] for m in house.model.requests[-1][1][1:]]
    assert shown[0] == "look there" and "saw here" in shown


async def test_a_start_that_was_lost_is_made_good(house: House) -> None:
    await begin(house, "book a plain")
    house.sender.broken = True
    await edit(house, "book a plane")
    house.sender.broken = False
    house.clock.advance(61)
    assert (await sweep(house.harness))["woken"] == 1


async def test_an_answered_message_leaves_a_note_that_wants_no_answer(house: House) -> None:
    await whole_turn(house, "book a plain")
    assert await edit(house, "book a plane") == []
    assert texts(house) == [("book a plain", "answered"), ("book a plane", "note")]
    house.clock.advance(3_600)
    assert (await sweep(house.harness))["woken"] == 0
    house.model.answers = [Completion("A plane it is.")]
    await whole_turn(house, "well?", "k2", run_id(2))
    shown = [m["content"] for m in house.model.requests[-1][1][1:]]
    assert shown == ["book a plain", "Hello.", f"[{MARK}]\nbook a plane\n\nwell?"]
    assert texts(house)[1] == ("book a plane", "note")


async def test_a_note_does_not_hold_up_a_turn_that_ends(house: House) -> None:
    await whole_turn(house, "one")
    flow = await begin(house, "two", "k2", run_id(2))
    thought = await think(house.harness, flow, ask())
    await edit(house, "ONE")
    done = {"key": "finish#1", "head": thought["head"], "text": "", "state": "finished"}
    assert (await finish(house.harness, flow, done))["kind"] == "answered"


async def test_the_same_and_older_edits_change_nothing(house: House) -> None:
    await begin(house, "first")
    await edit(house, "third", 300)
    newer = await begin(house, "third", "test:1", run_id(2))
    await edit(house, "second", 200)
    await edit(house, "third", 300)
    assert texts(house) == [("third", "open")]
    with house.tx() as tx:
        held = session.claim(tx, newer.session_id, newer.run_id, boot_id="b", now=house.clock.now())
    assert held is session.Claim.HELD


async def test_the_preview_of_a_link_is_no_edit(house: House) -> None:
    await whole_turn(house, "see this")
    await edit(house, "see this")
    assert texts(house) == [("see this", "answered")]


@pytest.mark.parametrize("text", ["/stop", "/new", "hello"])
async def test_an_edit_never_runs_a_command(house: House, text: str) -> None:
    """TRAPS, "The way in". Nor does it bring back what is no message here: a command, or before our time."""
    assert await edit(house, text, key="test:unknown") == []
    assert house.rows(messages.select()) == house.rows(sessions.select()) == []
    await begin(house, "work")
    await edit(house, text)
    assert texts(house) == [(text, "open")]
    assert {row.state for row in house.rows(turn_rows.select())} == {"superseded"}
    assert "agent.command.received" not in house.sender.names()


async def test_a_message_whose_turn_failed_is_tried_again_in_its_new_words(house: House) -> None:
    await whole_turn(house, "book a plain")
    await house.db.write(
        lambda tx: tx.execute(messages.update().where(messages.c.role == "user").values(state="failed"))
    )
    assert await edit(house, "book a plane") == ["test:1:edit-100"]
    assert texts(house) == [("book a plane", "open")]
    newer = await begin(house, "book a plane", "test:1", run_id(2))
    house.model.answers = [Completion("A plane is booked.")]
    await think(house.harness, newer, ask())
    assert house.model.requests[-1][1][-1]["content"] == "book a plane"


async def test_in_a_group_an_edit_that_names_the_agent_is_heard_as_new(house: House) -> None:
    group = {"channel_meta": {"group": True}}
    assert await edit(house, "/stop", **group) == []
    assert await edit(house, "book a plane", **group) == ["test:1:first"]
    assert texts(house) == [("book a plane", "open")]
    assert await edit(house, "an old message", key="test:2") == []
