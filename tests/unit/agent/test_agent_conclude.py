"""The sign at a message goes when its turn is over, however it ended, also when the turn was faster than the sign."""

from datetime import timedelta
from typing import Any

import pytest

from app.agent.acknowledge import show_received
from app.agent.conclude import MAX_TRIES, PAUSES_S, conclude
from app.agent.failure import tell_failure
from app.agent.heartbeat.look import look_around
from app.agent.people.commands import run_command
from app.channels.channel import Later
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
    assert house.channel.acknowledged == [] and house.channel.concluded == [(HERE, True)]


async def test_when_the_turn_ends_while_the_sign_is_being_set(house: House, monkeypatch: Any) -> None:
    async def slow(destination: Destination) -> bool:
        await whole_turn(house)
        await look_around(house.harness, RUN, SESSION)
        house.channel.acknowledged.append(destination)
        return True

    monkeypatch.setattr(house.channel, "acknowledge", slow)
    await show_received(house.harness, message(), "test:1")
    assert house.channel.acknowledged == [HERE]
    assert house.channel.concluded == [(HERE, True)] * 2, "the second comes after the sign"


# 429 with retry_after -> as asked, and what is done already is not asked for again.
async def test_where_the_platform_asks_to_wait_it_goes_on_from_there(house: House) -> None:
    for number in (1, 2, 3):
        await show_received(house.harness, message(key=f"test:{number}", destination=at(number)), f"test:{number}")
    await whole_turn(house, key="test:3")
    house.channel.signs = [True, Later(40, "busy")]
    signs = (await look_around(house.harness, RUN, SESSION))["signs"]
    assert signs["until"] == (house.clock.now() + timedelta(seconds=40)).isoformat()
    done = await conclude(house.harness, signs["run"], signs["after"], signs["tries"])
    assert done["until"] is None
    assert [place for place, _ in house.channel.concluded] == [at(1), at(2), at(2), at(3)]


@pytest.mark.parametrize(("asked", "most"), [(Later(1, "busy"), MAX_TRIES), (Later(None, "away"), len(PAUSES_S))])
async def test_a_sign_is_not_tried_for_ever(house: House, asked: Later, most: int) -> None:
    await whole_turn(house)
    house.channel.signs = [asked] * 100
    signs = await conclude(house.harness, RUN)
    while signs["until"]:
        signs = await conclude(house.harness, RUN, signs["after"], signs["tries"])
    assert len(house.channel.concluded) == most + 1


async def test_not_for_channels_that_are_not_there_any_more(house: House, monkeypatch: Any) -> None:
    await whole_turn(house)
    monkeypatch.delitem(house.harness.channels, "test")
    await look_around(house.harness, RUN, SESSION)
    assert house.channel.concluded == []
