"""Events that somebody sends past the way in, such as a webhook of Inngest Cloud, are asked about as well."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.agent.accept import accept
from app.agent.acknowledge import show_received
from app.agent.approvals.decision import run_decision
from app.agent.people.commands import run_command
from app.agent.receive import receive
from app.events import CommandReceived, Destination, MessageReceived, Sender
from app.tables import messages
from tests.unit.house import RUN, House, make_house, message

KEY = "slack:T1:D1:1"


@pytest.fixture
async def house(tmp_path: Any, template: Any) -> AsyncIterator[House]:
    built = make_house(tmp_path / "house", template, slack_allowed="U1")
    yield built
    await built.db.close()


def said(who: str, **changes: Any) -> MessageReceived:
    given = {"key": KEY, "channel": "slack", "sender": Sender(id=who), "session_key": "slack:T1:D1"}
    return message(**given | {"destination": Destination(chat_id="D1")} | changes)


async def test_a_message_of_a_stranger_is_none(house: House) -> None:
    assert (await show_received(house.harness, said("U9"), KEY))["look_again"] is None
    assert (await receive(house.harness, RUN, said("U9"), KEY))["stop"] == "nothing"
    assert house.rows(messages.select()) == []


async def test_a_message_of_somebody_who_is_listed_is_taken_up(house: House) -> None:
    assert (await show_received(house.harness, said("U1"), KEY))["look_again"] is not None
    assert (await receive(house.harness, RUN, said("U1"), KEY)).get("stop") is None


async def test_what_was_accepted_is_not_asked_about_again(house: House) -> None:
    await accept(house.harness, said("U1"))
    assert (await receive(house.harness, RUN, said("U9"), KEY)).get("stop") is None, "the row is what counts"


@pytest.mark.parametrize("run", [run_command, run_decision])
async def test_a_command_of_a_stranger_does_nothing(house: House, run: Any) -> None:
    command = CommandReceived(
        command="status", message_key=KEY, channel="slack", session_key="slack:T1:D1", sender=Sender(id="U9"),
        destination=Destination(chat_id="D1"),
    )  # fmt: skip
    assert await run(house.harness, command, KEY) == {"command": ""}
    own = command.model_copy(update={"sender": Sender(id="U1")})
    assert (await run(house.harness, own, f"{KEY}1"))["command"] == "status"
    by_accept = command.model_copy(update={"behind": 0})
    assert (await run(house.harness, by_accept, f"{KEY}2"))["command"] == "status"


async def test_an_edit_that_comes_so_replaces_what_is_open(house: House) -> None:
    await accept(house.harness, said("U1", text="old"))
    await receive(house.harness, RUN, said("U1", text="new", edited="5"), KEY)
    (row,) = house.rows(messages.select())
    assert row.text == "new"
