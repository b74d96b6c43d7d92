"""A command that fails for good is not met with silence: one plain notice, unless its answer is there."""

from typing import Any

import pytest

from app.agent.failure import tell_failure
from app.agent.people.commands import run_command
from app.agent.people.failed_command import FAILED_COMMAND
from app.events import CHAT_MOVED, CommandReceived, Destination
from app.sentences import say
from app.tables import deliveries
from tests.unit.house import RUN, SESSION, House

KEY = "test:c1"


def command(name: str = "status", **meta: Any) -> CommandReceived:
    return CommandReceived(
        command=name,
        session_key=SESSION,
        channel="test",
        destination=Destination(chat_id="7"),
        message_key=KEY,
        channel_meta={"languageCode": "de"} | meta,
    )


def failed(event: CommandReceived, function: str = "acknowledge") -> dict[str, Any]:
    error = {"name": "RuntimeError", "message": "it broke", "stack": "Traceback …"}
    return {"function_id": f"moab-{function}", "run_id": RUN, "error": error, "event": event.to_wire("e1")}


async def test_who_gave_it_is_told_once_in_their_language(house: House) -> None:
    for _ in range(2):
        assert await tell_failure(house.harness, failed(command())) == {"told": True}
    (row,) = house.rows(deliveries.select())
    assert row.text == say(FAILED_COMMAND, "de", command="status", run_id=RUN) and "it broke" not in row.text
    assert house.sender.names() == ["agent.reply.ready"] * 2


async def test_what_was_carried_out_is_only_sent(house: House) -> None:
    await run_command(house.harness, command(), KEY)
    await tell_failure(house.harness, failed(command()))
    assert [row.kind for row in house.rows(deliveries.select())] == ["command"]
    assert house.sender.names() == ["agent.reply.ready"] * 2


@pytest.mark.parametrize(
    "event", [command(CHAT_MOVED), command("weather", unnamed=True)], ids=["the platform's own", "another bot's"]
)
async def test_what_nobody_asked_of_this_bot_is_passed_over(house: House, event: CommandReceived) -> None:
    await tell_failure(house.harness, failed(event))
    assert house.rows(deliveries.select()) == []


async def test_another_function_is_no_command(house: House) -> None:
    assert await tell_failure(house.harness, failed(command(), "handle-message")) == {"told": False}
