"""The finish step: the answer is an outbox row, written with the end of the turn, or the turn goes on."""

from typing import Any

import pytest

from app.agent.context.build import DRAFT
from app.agent.finish import finish
from app.agent.flow import Ending, Flow
from app.agent.loop import OFFER
from app.agent.models.llm import Completion, ModelFailure, Trouble
from app.agent.recovery import EXPLANATIONS
from app.agent.think import think
from app.channels.delivery import deliver_next
from app.sessions import deposit, session
from app.tables import deliveries, messages
from app.tables import turns as turn_rows
from tests.unit.house import RUN, SESSION, House, ask, begin, kill_at, message, run_id, whole_turn, wishes


def done(head: int | None = None, text: str = "", state: str = "finished") -> dict[str, Any]:
    return {"key": "finish#1", "head": head, "text": text, "state": state}


async def answered(house: House, text: str = "Hello.") -> tuple[Flow, int]:
    """A turn whose model has answered; its head."""
    house.model.answers = [Completion(text)]
    flow = await begin(house)
    thought = await think(house.harness, flow, ask())
    return flow, thought["head"]


async def end(house: House, flow: Flow, request: dict[str, Any]) -> Ending:
    return Ending.model_validate(await finish(house.harness, flow, request))


def turn(house: House, run: str = RUN) -> Any:
    (row,) = house.rows(turn_rows.select().where(turn_rows.c.run_id == run))
    return row


def inputs(house: House) -> dict[str, tuple[str, str | None]]:
    rows = house.rows(messages.select().where(messages.c.role == "user"))
    return {row.message_key: (row.state, row.answered_by) for row in rows}


def late(house: House, key: str = "k2", text: str = "wait") -> None:
    with house.tx() as tx:
        deposit.deposit(tx, message(text, key), key, new_session_id="X", now=house.clock.now())


async def test_the_answer_the_marks_and_the_end_are_one(house: House) -> None:
    flow, head = await answered(house, "one\n---\ntwo")
    assert (await end(house, flow, done(head))) == Ending(kind="answered")
    rows = house.rows(deliveries.select().order_by(deliveries.c.id))
    assert [(r.key, r.part["text"], r.kind, r.state) for r in rows] == [
        (f"{RUN}/reply/0", "one", "reply", "pending"),
        (f"{RUN}/reply/1", "two", "reply", "pending"),
    ]
    assert rows[0].destination["chatId"] == "7" and rows[0].text == "one\n---\ntwo"
    assert inputs(house) == {"test:1": ("answered", RUN)}
    assert (turn(house).state, turn(house).error, turn(house).settled_at) == ("finished", None, None)


async def test_it_is_announced(house: House) -> None:
    flow, head = await answered(house)
    await end(house, flow, done(head))
    reply, ended = house.sender.events
    assert (reply["name"], reply["id"]) == ("agent.reply.ready", f"{RUN}:reply:1")
    assert reply["data"] == {
        "turnId": RUN,
        "sessionKey": SESSION,
        "channel": "test",
        "destination": {"chatId": "7"},
        "channelMeta": {},
    }
    assert (ended["name"], ended["data"]) == ("agent.turn.ended", {"sessionKey": SESSION, "turnId": RUN})


async def test_done_before_it_only_announces_again_under_fresh_ids(house: House) -> None:
    flow, head = await answered(house)
    first = await end(house, flow, done(head))
    house.clock.advance(5)
    assert await end(house, flow, done(head)) == first
    assert house.sender.ids() == [f"{RUN}:reply:1", f"{RUN}:ended:1", f"{RUN}:reply:2", f"{RUN}:ended:2"]
    assert len(house.rows(deliveries.select())) == 1


@pytest.mark.parametrize("point", ["finish.committed", "finish.announced"])
async def test_killed_on_the_way_the_answer_is_there_once_and_announced(house: House, point: str) -> None:
    """Row 6 and 7."""
    flow, head = await answered(house)
    with kill_at(point):
        await end(house, flow, done(head))
    assert (await end(house.rebooted(), flow, done(head))).kind == "answered"
    assert len(house.rows(deliveries.select())) == 1 and house.sender.names()[-2:] == [
        "agent.reply.ready",
        "agent.turn.ended",
    ]


async def test_an_engine_that_is_away_loses_nothing(house: House) -> None:
    flow, head = await answered(house)
    house.sender.broken = True
    assert (await end(house, flow, done(head))).kind == "answered"
    assert house.sender.events == [] and house.rows(deliveries.select())[0].state == "pending"


async def test_something_newer_makes_a_draft_of_the_answer(house: House) -> None:
    """Row 5."""
    flow, head = await answered(house, "to one")
    late(house)
    assert (await end(house, flow, done(head))).kind == "more"
    assert house.sender.events == [] and house.rows(deliveries.select()) == []
    assert turn(house).state == "live"
    house.model.answers = [Completion("to both")]
    again = await think(house.harness, flow, ask(1))
    shown = house.model.requests[-1][1]
    assert [m["content"] for m in shown[1:]] == ["hello", f"to one\n\n{DRAFT}", "wait"]
    assert (await end(house, flow, done(again["head"]))).kind == "answered"
    assert inputs(house) == {"test:1": ("answered", RUN), "k2": ("answered", RUN)}


async def test_what_is_newer_does_not_hold_up_a_failure_and_is_woken(house: House) -> None:
    flow, _ = await answered(house)
    late(house)
    assert (await end(house, flow, done(text="It failed.", state="failed"))).kind == "failed"
    assert inputs(house) == {"test:1": ("failed", RUN), "k2": ("open", None)}
    (row,) = house.rows(deliveries.select())
    assert row.text == f"It failed. (run {RUN})"
    assert (turn(house).state, turn(house).error) == ("failed", "It failed.")
    (woken,) = house.sender.of("agent.message.received")
    assert (woken["id"], woken["data"]["steers"]) == ("k2:again-1", False)


async def test_an_offer_answers_and_leaves_the_rest_open(house: House) -> None:
    flow = await begin(house)
    assert (await end(house, flow, done(text=OFFER, state="offered"))).kind == "offered"
    assert inputs(house) == {"test:1": ("answered", RUN)}
    assert house.rows(deliveries.select())[0].text == OFFER and turn(house).state == "offered"


async def test_a_stale_turn_may_still_end(house: House) -> None:
    flow, head = await answered(house)
    house.clock.advance(3_600)
    assert (await end(house.rebooted(), flow, done(head))).kind == "answered"


async def test_a_superseded_turn_writes_nothing(house: House) -> None:
    flow, head = await answered(house)
    await begin(house, "newer", "k2", run_id(2))
    assert (await end(house, flow, done(head))).kind == "superseded"
    assert house.rows(deliveries.select()) == [] and house.sender.events == []


async def test_a_stopped_turn_writes_nothing(house: House) -> None:
    flow, head = await answered(house)
    with house.tx() as tx:
        session.stop(tx, flow.session_id, house.clock.now())
    assert (await end(house, flow, done(head))).kind == "stopped"
    assert house.rows(deliveries.select()) == [] and inputs(house) == {"test:1": ("stopped", None)}


async def test_a_machines_turn_that_was_overtaken_stays_an_end(house: House) -> None:
    """The older run's finish, repeated after a newer turn began, does not send the answer again as its own."""
    flow, head = await answered(house)
    await end(house, flow, done(head))
    await begin(house, "newer", "k2", run_id(2))
    assert (await end(house, flow, done(head))).kind == "answered"
    assert turn(house).state == "finished" and turn(house, run_id(2)).state == "live"


async def test_a_sub_agent_answers_its_parent_not_a_chat(house: House) -> None:
    flow = (await begin(house, channel="task", origin="task")).model_copy(update={"delegates": False})
    house.model.answers = [Completion("x" * 20_000)]
    thought = await think(house.harness, flow, ask())
    ending = await end(house, flow, done(thought["head"]))
    assert ending.kind == "answered" and ending.text == "x" * 12_000
    assert house.rows(deliveries.select()) == [] and house.sender.events == []
    assert turn(house).settled_at is not None, "no event follows, and so nobody else would settle it"


async def test_a_channel_that_is_gone_leaves_no_turn_open(house: House) -> None:
    flow = await begin(house, channel="gone")
    thought = await think(house.harness, flow, ask())
    assert (await end(house, flow, done(thought["head"]))).kind == "answered"
    assert (turn(house).state, turn(house).settled_at is not None) == ("finished", True)
    assert inputs(house) == {"test:1": ("answered", RUN)}


async def test_five_messages_in_a_burst_are_all_answered_once(house: House) -> None:
    for number in range(5):
        late(house, f"k{number}", f"message {number}")
    house.model.answers = [Completion("to all")]
    assert (await whole_turn(house, "message 4", "k4")).kind == "answered"
    assert set(inputs(house).values()) == {("answered", RUN)}
    assert len(house.model.requests) == 1 and len(house.rows(deliveries.select())) == 1
    assert (await begin(house, "message 2", "k2", run_id(2))).stop == "nothing"


async def test_a_turn_with_tools_from_the_message_to_the_platform(house: House) -> None:
    house.model.answers = [
        ModelFailure(Trouble.OVERLOADED, "busy", 3.0),
        wishes(("look", {}), ("push", {"what": "a"})),
        wishes(("delegate_task", {"task": "more"})),
        Completion("All done."),
    ]
    ending = await whole_turn(house)
    assert ending.kind == "answered" and house.log == ["look here", "push a"]
    answer = await deliver_next(house.db, house.harness.channels, house.clock, house.harness.boot_id, "test:7")
    assert answer == {"kind": "done"} and house.channel.sent == ["All done."]
    roles = [m["role"] for m in house.model.requests[-1][1]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]
    assert house.model.requests[-1][1][-1]["content"] == "the child's answer"


async def test_a_turn_that_fails_says_so_once(house: House) -> None:
    house.model.answers = [ModelFailure(Trouble.QUOTA, "no credit")]
    assert (await whole_turn(house)).kind == "failed"
    (row,) = house.rows(deliveries.select())
    assert row.text.startswith(EXPLANATIONS[Trouble.QUOTA]) and RUN in row.text
    assert inputs(house) == {"test:1": ("failed", RUN)}
