"""The sign at a message goes when its turn is over, however it ended, also when the turn was faster than the sign."""

from typing import Any

from app.agent.acknowledge import show_received
from app.agent.failure import tell_failure
from app.agent.heartbeat.look import look_around
from app.agent.people.commands import run_command
from app.events import CommandReceived, Destination
from tests.unit.house import RUN, SESSION, House, begin, message, run_id, whole_turn

HERE = Destination(chat_id="7")


def at(number: int) -> Destination:
    return Destination(chat_id="7", message_id=str(number))


async def test_when_a_turn_has_answered(house: House) -> None:
    for number in (1, 2):
        await show_received(house.harness, message(key=f"test:{number}", destination=at(number)), f"test:{number}")
    await whole_turn(house, key="test:2")
    assert house.channel.concluded == []
    await look_around(house.harness, RUN, SESSION)
    assert house.channel.concluded == [(at(1), True), (at(2), True)], "every message that it answered"
    await look_around(house.harness, run_id(9), SESSION)
    await look_around(house.harness, None)
    assert len(house.channel.concluded) == 2


async def test_when_a_turn_has_failed(house: House) -> None:
    await begin(house)
    await tell_failure(house.harness, {"run_id": RUN, "error": {"message": "a fault"}})
    assert house.channel.concluded == [(HERE, False)]


async def test_when_a_turn_is_stopped(house: House) -> None:
    await begin(house)
    stop = CommandReceived(command="stop", session_key=SESSION, channel="test", destination=HERE)
    await run_command(house.harness, stop, "test:stop")
    assert house.channel.concluded == [(HERE, True)]


async def test_when_the_turn_was_faster_than_the_sign(house: House) -> None:
    await whole_turn(house)
    await show_received(house.harness, message(), "test:1")
    assert house.channel.acknowledged == [HERE] and house.channel.concluded == [(HERE, True)]


async def test_not_for_channels_that_are_not_there_any_more(house: House, monkeypatch: Any) -> None:
    await whole_turn(house)
    monkeypatch.delitem(house.harness.channels, "test")
    await look_around(house.harness, RUN, SESSION)
    assert house.channel.concluded == []
