"""Commands of people: carried out once each, also while a turn runs."""

from typing import Any

import pytest

from app.agent.act import act
from app.agent.models.llm import Completion
from app.agent.people import commands
from app.agent.people.commands import HELP as LINES
from app.agent.people.commands import run_command
from app.agent.think import think
from app.events import CommandReceived, Destination
from app.sessions import calls, deposit, session
from app.tables import deliveries, messages, sessions, usage
from app.tables import turns as turn_rows
from tests.unit.house import RUN, SESSION, House, ask, begin, message, run_id, whole_turn, wishes


def command(name: str, **changes: Any) -> CommandReceived:
    fields: dict[str, Any] = {
        "command": name,
        "session_key": SESSION,
        "channel": "test",
        "destination": Destination(chat_id="7"),
        "message_key": "k9",
    }
    return CommandReceived(**fields | changes)


async def say(house: House, name: str, key: str = "k9", **changes: Any) -> str:
    """What the command said."""
    await run_command(house.harness, command(name, **changes), key)
    text: str = house.rows(deliveries.select().order_by(deliveries.c.id.desc()))[0].text
    return text


async def test_stop_ends_the_turn_and_its_messages(house: House) -> None:
    flow = await begin(house)
    assert await say(house, "stop") == "Stopped."
    stopped, reply = house.sender.events
    before = int(house.clock.now().timestamp() * 1000)
    assert stopped["name"] == "agent.turn.stopped"
    assert stopped["data"] == {"sessionKey": SESSION, "turnId": RUN, "beforeMs": before}
    assert (reply["name"], reply["data"]["destination"]) == ("agent.reply.ready", {"chatId": "7"})
    assert [row.state for row in house.rows(messages.select())] == ["stopped"]
    with house.tx() as tx:
        held = session.claim(tx, flow.session_id, RUN, boot_id="b", now=house.clock.now())
    assert held is session.Claim.STOPPED


async def test_stop_with_nothing_to_stop(house: House) -> None:
    assert await say(house, "stop") == "Nothing was running."
    assert house.sender.names() == ["agent.reply.ready"]


async def test_stop_catches_a_message_whose_turn_has_not_begun(house: House) -> None:
    with house.tx() as tx:
        deposit.deposit(tx, message(), "test:1", new_session_id="S", now=house.clock.now())
    await say(house, "stop")
    assert (await begin(house)).stop == "nothing"


@pytest.mark.parametrize("name", ["stop", "new", "undo"])
async def test_what_was_said_behind_a_command_is_not_meant_by_it(house: House, name: str) -> None:
    """It is carried out a moment later, when the next message may be there already."""
    await begin(house, "work", "k1", run_id(1))
    first = house.rows(messages.select())[0].id
    steered = await begin(house, "again", "k2", run_id(2))
    await say(house, name, behind=first, at_ms=5)
    states = {row.message_key: row.state for row in house.rows(messages.select())}
    assert states == {"k1": "stopped", "k2": "open"}
    assert "agent.turn.stopped" not in house.sender.names()
    if name == "new":
        (woken,) = house.sender.of("agent.message.received")
        assert woken["id"] == "k2:again-1" and (await think(house.harness, steered, ask()))["kind"] == "stopped"
        steered = await begin(house, "again", "k2", run_id(3))
    await think(house.harness, steered, ask())
    shown = [str(m["content"]) for m in house.model.requests[-1][1][1:]]
    assert shown == (["again"] if name != "stop" else ["work\n\nagain"])


async def test_stop_ends_also_the_tool_of_a_turn_that_was_taken_over(house: House) -> None:
    flow = await begin(house, "work", "k1", run_id(1))
    house.model.answers = [wishes(("push", {"what": "a"}))]
    await think(house.harness, flow, ask())
    with house.tx() as tx:
        call = calls.find(tx, run_id(1), "tool#0.0")
        assert call is not None
        calls.start(tx, call.id, "home:boot1", house.clock.now())
    await begin(house, "hurry", "k2", run_id(2))
    await say(house, "stop")
    with house.tx() as tx:
        assert {row.state for row in tx.execute(turn_rows.select())} == {"stopped"}


async def test_new_keeps_the_old_and_opens_a_fresh_one(house: House) -> None:
    """Row 17: what still comes in for the old conversation stays there."""
    old = await begin(house)
    assert await say(house, "new") == "A fresh conversation. The old one is kept (/sessions)."
    assert house.sender.names() == ["agent.turn.stopped", "agent.reply.ready"]
    fresh = await begin(house, "again", "k2", run_id(2))
    assert fresh.session_id != old.session_id
    rows = house.rows(sessions.select().order_by(sessions.c.id))
    assert [row.closed_at is None for row in rows] == [False, True]
    assert (await begin(house)).stop == "stopped"


async def test_new_keeps_what_was_chosen(house: House) -> None:
    await say(house, "model", "k1", args="other/model")
    await say(house, "think", "k2", args="high")
    await say(house, "new", "k3")
    fresh = await begin(house)
    assert (fresh.model, fresh.think) == ("other/model", "high")
    await say(house, "model", "k4", args="default")
    await say(house, "new", "k5")
    assert (await begin(house, "again", "k6", run_id(2))).model == "test/model"


async def test_stop_says_what_was_done(house: House) -> None:
    flow = await begin(house)
    house.model.answers = [wishes(("look", {}), ("look", {"at": "there"}), ("push", {"what": "a"}))]
    await think(house.harness, flow, ask())
    for number in (0, 1):
        await act(house.harness, flow, {"key": f"tool#0.{number}", "name": "look"})

    with house.tx() as tx:
        call = calls.find(tx, RUN, "tool#0.2")
        assert call is not None
        calls.start(tx, call.id, "home:boot1", house.clock.now())
    assert await say(house, "stop") == "Stopped. Done before that: look (2 times). Cut off: push."


async def test_status_says_where_things_stand(house: House) -> None:
    idle = (
        "Model: test/model.\nMessages in this conversation: 0. Context: nothing was sent to the model yet.\nNow: idle."
    )
    assert await say(house, "status") == idle
    flow = await begin(house)
    house.model.answers = [
        Completion("", wishes(("look", {})).wishes, input_tokens=1_000, output_tokens=50, cost_usd=0.02)
    ]
    await think(house.harness, flow, ask())
    house.clock.advance(250)
    await think(house.harness, flow, ask(1))
    assert (await say(house, "status", "k10")).splitlines()[1:] == [
        "Messages in this conversation: 3. Context: about 1050 tokens. Cost so far: $0.0400.",
        "Now: thinking, step 2, for 4 min.",
    ]


async def test_status_does_not_count_what_is_only_reserved(house: House) -> None:
    await whole_turn(house)
    with house.tx() as tx:
        tx.execute(usage.update().values(cost_usd=0.5, input_tokens=70, output_tokens=7))
        row = {"run_id": "r", "step_key": "s", "session_id": house.rows(sessions.select())[0].id, "model": "m"}
        amounts = {"input_tokens": 9, "output_tokens": 9, "cost_usd": 3.0, "at": house.clock.now(), "state": "reserved"}
        tx.execute(usage.insert().values(row | amounts))
    assert "Context: about 77 tokens. Cost so far: $0.5000." in await say(house, "status")


async def test_old_conversations_are_listed(house: House) -> None:
    await whole_turn(house, "tell me about tea", "k1", run_id(1))
    house.clock.advance(3_600)
    await say(house, "new", "c1")
    await say(house, "sessions", "c2")
    assert (await say(house, "sessions", "c2")).splitlines() == [
        "Conversations here (/search finds what was said in them):",
        "- now: since 2026-01-05 13:00, 0 messages",
        "- since 2026-01-05 12:00, 2 messages: tell me about tea",
    ]
    assert "Earlier conversations: 1 (/sessions lists them)." in await say(house, "status", "c3")


async def test_the_model_of_a_conversation_is_its_own(house: House) -> None:
    assert await say(house, "model", "c1") == "Model: test/model (the default)."
    assert await say(house, "model", "c2", args=" other/model ") == "Model: other/model, from now on."
    assert house.rows(sessions.select())[0].model == "other/model"
    assert (await say(house, "status", "c3")).startswith("Model: other/model.")
    await begin(house)
    assert await say(house, "model", "c4", args="default") == "Model: test/model, from the next turn on."
    assert house.rows(sessions.select())[0].model is None


@pytest.mark.parametrize("name", ["two words", "x" * 300])
async def test_a_name_that_is_none_changes_nothing(house: House, name: str) -> None:
    assert "A model is one name" in await say(house, "model", args=name)
    assert house.rows(sessions.select())[0].model is None


async def test_how_much_it_thinks_is_stored_with_the_conversation(house: House) -> None:
    assert await say(house, "think", "c1", args="High") == "Thinking: high, from now on."
    assert house.rows(sessions.select())[0].think == "high"
    assert (await say(house, "think", "c2")).startswith("Thinking: high.")
    assert "thinking high." in await say(house, "status", "c3")
    assert "There is no level 'a lot'" in await say(house, "think", "c4", args="a lot")
    assert house.rows(sessions.select())[0].think == "high"
    await say(house, "think", "c5", args="default")
    assert house.rows(sessions.select())[0].think is None


async def test_what_was_said_is_found_also_in_an_old_conversation(house: House) -> None:
    house.model.answers = ["The door code is 4711."]
    await whole_turn(house)
    await say(house, "new", "c1")
    assert await say(house, "search", "c2", args="door code") == "- 2026-01-05 12:00, I: The door code is 4711."
    assert await say(house, "search", "c3", args="bicycle") == "Nothing was said with these words."
    assert await say(house, "search", "c4") == "Say what to look for: /search words"


async def test_killed_right_after_it_was_carried_out_it_is_only_announced_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer lies in the outbox, and what it did is not done twice."""

    async def dead(*_: Any) -> None:
        raise KeyboardInterrupt

    await begin(house, key="k1", run=run_id(1))
    with monkeypatch.context() as patch:
        patch.setattr(commands, "announce", dead)
        with pytest.raises(KeyboardInterrupt):
            await say(house, "new", "c1")
    fresh = await begin(house, "afresh", "k2", run_id(2))
    await say(house, "new", "c1")
    assert (await begin(house, "afresh", "k2", run_id(2))).session_id == fresh.session_id
    assert len(house.rows(sessions.select())) == 2 and len(house.rows(deliveries.select())) == 1
    assert house.sender.names() == ["agent.reply.ready"]


HELP = "\n".join(LINES)


@pytest.mark.parametrize(("name", "said"), [("help", HELP), ("start", HELP), ("dance", f"There is no /dance.\n{HELP}")])
async def test_help_and_what_is_not_there(house: House, name: str, said: str) -> None:
    assert await say(house, name) == said


async def test_in_a_group_an_unknown_command_that_names_no_bot_is_for_another(house: House) -> None:
    meta = {"group": True, "unnamed": True}
    assert await run_command(house.harness, command("dance", channel_meta=meta), "c1") == {"command": ""}
    assert house.rows(deliveries.select()) == []
    assert await run_command(house.harness, command("help", channel_meta=meta), "c2") == {"command": "help"}


async def test_a_command_is_carried_out_once_for_its_key(house: House) -> None:
    await begin(house, key="k1", run=run_id(1))
    await say(house, "stop")
    await begin(house, key="k2", run=run_id(2))
    await say(house, "stop")
    assert len(house.rows(deliveries.select())) == 1
    assert len(house.sender.of("agent.turn.stopped")) == 1
    states = {row.message_key: row.state for row in house.rows(messages.select())}
    assert states == {"k1": "stopped", "k2": "open"}
    assert len(set(house.sender.ids())) == len(house.sender.ids()) == 3


async def test_the_answer_is_there_also_when_the_engine_is_away(house: House) -> None:
    house.sender.broken = True
    assert await say(house, "help") == HELP
    assert house.rows(deliveries.select())[0].state == "pending"


async def test_a_channel_that_is_not_configured_gets_a_row_all_the_same(house: House) -> None:
    assert await say(house, "help", channel="gone") == HELP
