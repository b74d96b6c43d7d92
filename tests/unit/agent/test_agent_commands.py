"""Commands of people: carried out once each, also while a turn runs."""

from typing import Any

import pytest

from app.agent.commands import HELP, run_command
from app.events import CommandReceived, Destination
from app.sessions import deposit, session
from app.tables import deliveries, messages, sessions
from tests.unit.house import RUN, SESSION, House, begin, message, run_id


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
    assert (stopped["name"], stopped["data"]) == ("agent.turn.stopped", {"sessionKey": SESSION, "turnId": RUN})
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


async def test_new_keeps_the_old_and_opens_a_fresh_one(house: House) -> None:
    """Row 17: what still comes in for the old conversation stays there."""
    old = await begin(house)
    assert await say(house, "new") == "A fresh conversation. The old one is kept."
    assert house.sender.names() == ["agent.turn.stopped", "agent.reply.ready"]
    fresh = await begin(house, "again", "k2", run_id(2))
    assert fresh.session_id != old.session_id
    rows = house.rows(sessions.select().order_by(sessions.c.id))
    assert [row.closed_at is None for row in rows] == [False, True]
    assert (await begin(house)).stop == "stopped"


async def test_status_says_where_things_stand(house: House) -> None:
    assert await say(house, "status") == "Model: test/model. Messages in this conversation: 0. Now: idle."
    await begin(house)
    found = await say(house, "status", "k10")
    assert found == "Model: test/model. Messages in this conversation: 1. Now: thinking, step 1."


@pytest.mark.parametrize(("name", "said"), [("help", HELP), ("start", HELP), ("dance", f"There is no /dance. {HELP}")])
async def test_help_and_what_is_not_there(house: House, name: str, said: str) -> None:
    assert await say(house, name) == said


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
