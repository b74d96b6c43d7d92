"""A run that failed for good: one plain sentence, and none for a turn that somebody else has taken over."""

import logging
from typing import Any

import pytest

from app.agent.act import act
from app.agent.failure import tell_failure
from app.agent.think import think
from app.sessions import session
from app.tables import calls as call_rows
from app.tables import deliveries, messages
from app.tables import turns as turn_rows
from tests.unit.house import RUN, SESSION, House, ask, begin, kill_at, run_id, whole_turn, wishes

FAILED: dict[str, Any] = {
    "function_id": "moab-handle-message",
    "run_id": RUN,
    "error": {"name": "RuntimeError", "message": "it broke", "stack": "Traceback …"},
}


async def test_the_person_is_told_and_the_messages_are_closed(house: House) -> None:
    await begin(house)
    assert await tell_failure(house.harness, FAILED) == {"told": True}
    (row,) = house.rows(deliveries.select())
    assert row.kind == "notice" and RUN in row.text and "it broke" not in row.text
    assert [(m.state, m.answered_by) for m in house.rows(messages.select())] == [("failed", RUN)]
    (turn,) = house.rows(turn_rows.select())
    assert (turn.state, turn.error) == ("failed", "it broke") and turn.settled_at is not None
    (event,) = house.sender.events
    assert (event["name"], event["data"]["sessionKey"]) == ("agent.reply.ready", SESSION)


async def test_one_notice_however_often_it_is_told(house: House) -> None:
    await begin(house)
    for _ in range(3):
        await tell_failure(house.harness, FAILED)
    assert len(house.rows(deliveries.select())) == 1


async def test_killed_before_its_event_it_announces_again(house: House) -> None:
    await begin(house)
    house.sender.broken = True
    await tell_failure(house.harness, FAILED)
    house.sender.broken = False
    assert await tell_failure(house.harness, FAILED) == {"told": True}
    assert house.sender.names() == ["agent.reply.ready"] and len(house.rows(deliveries.select())) == 1


async def test_a_superseded_turn_says_nothing(house: House) -> None:
    """Row 18."""
    await begin(house)
    await begin(house, "newer", "k2", run_id(2))
    assert await tell_failure(house.harness, FAILED) == {"told": False}
    assert house.rows(deliveries.select()) == [] and house.sender.events == []
    assert {m.state for m in house.rows(messages.select())} == {"open"}


async def test_a_stopped_turn_says_nothing(house: House) -> None:
    flow = await begin(house)
    with house.tx() as tx:
        session.stop(tx, flow.session_id, house.clock.now())
    assert await tell_failure(house.harness, FAILED) == {"told": False}


async def test_a_turn_that_had_answered_says_nothing(house: House) -> None:
    await whole_turn(house)
    assert await tell_failure(house.harness, FAILED) == {"told": False}
    assert [row.kind for row in house.rows(deliveries.select())] == ["reply"]


@pytest.mark.parametrize("failed", [{}, {"run_id": "unknown"}, FAILED | {"run_id": run_id(9)}, {"error": None}])
async def test_a_run_that_is_no_turn_says_nothing(house: House, failed: dict[str, Any]) -> None:
    await begin(house)
    assert await tell_failure(house.harness, failed) == {"told": False}


async def test_what_came_in_meanwhile_stays_open(house: House) -> None:
    flow = await begin(house)
    with house.tx() as tx:
        from_other = messages.insert().values(
            session_id=flow.session_id, role="user", text="x", data={}, state="open", created_at=house.clock.now()
        )
        tx.execute(from_other)
    await tell_failure(house.harness, FAILED)
    assert [m.state for m in house.rows(messages.select().order_by(messages.c.id))] == ["failed", "open"]


async def test_a_channel_that_is_gone_is_no_reason_to_fail(house: House) -> None:
    await begin(house, channel="gone")
    assert await tell_failure(house.harness, FAILED) == {"told": False}
    assert [m.state for m in house.rows(messages.select())] == ["failed"]


async def test_the_log_names_run_and_function(house: House, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        await tell_failure(house.harness, FAILED)
    assert f"The run {RUN} of moab-handle-message failed: it broke" in caplog.text


async def test_the_turn_fails_between_commit_and_memo_of_its_finish(house: House) -> None:
    """It has answered: the failure of its last step must not deny that."""
    with kill_at("finish.committed"):
        await whole_turn(house)
    assert await tell_failure(house.harness, FAILED) == {"told": False}
    assert [row.kind for row in house.rows(deliveries.select())] == ["reply"]


async def test_it_says_what_was_done_and_what_to_do_in_the_language_of_the_person(house: House) -> None:
    flow = await begin(house, channel_meta={"languageCode": "de"})
    calls = [("note", {"text": "a"}), ("note", {"text": "b"}), ("push", {"what": "x"})]
    house.model.answers = [wishes(*calls)]
    thought = await think(house.harness, flow, ask())
    for call in thought["calls"][:2]:
        await act(house.harness, flow, call)
    with house.tx() as tx:
        rows = tx.execute(call_rows.select().order_by(call_rows.c.id)).all()
        tx.execute(call_rows.update().where(call_rows.c.id == rows[2].id).values(state="interrupted"))
    await tell_failure(house.harness, FAILED)
    [row] = house.rows(deliveries.select().where(deliveries.c.key == f"{RUN}/failure/0"))
    assert row.text == (
        f"In mir ist etwas schiefgegangen, und ich konnte das nicht zu Ende bringen (Lauf {RUN}). "
        "Davor hatte ich getan: note (2-mal). "
        "Das ist vielleicht geschehen, vielleicht nicht: push; sieh bitte nach, bevor du es wiederholst. "
        'Deine Nachricht ist aufgehoben: Schreib "nochmal", dann versuche ich es wieder, oder sag es mit anderen '
        "Worten."
    )


async def test_where_nothing_was_done_it_says_so(house: House) -> None:
    await begin(house)
    await tell_failure(house.harness, FAILED)
    (row,) = house.rows(deliveries.select())
    assert "Nothing was changed by it." in row.text and 'say "again"' in row.text
