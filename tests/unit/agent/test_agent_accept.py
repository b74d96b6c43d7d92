"""The way in behind every webhook, and what happens at once: stored first, whatever the engine does."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from app.agent import announce
from app.agent.accept import accept
from app.agent.acknowledge import show_received
from app.errors import ServiceUnavailable
from app.events import CommandReceived, Destination
from app.tables import messages
from tests.unit.house import SESSION, House, kill_at, message


def stored(house: House) -> list[tuple[str, bool]]:
    """(message key, whether its event is known to be sent)."""
    return [(row.message_key, row.event_sent_at is not None) for row in house.rows(messages.select())]


async def test_on_disk_then_sent_then_marked(house: House) -> None:
    await accept(house.harness, message())
    assert stored(house) == [("test:1", True)]
    (event,) = house.sender.events
    assert (event["id"], event["name"], event["data"]["message"]) == ("test:1:first", "agent.message.received", "hello")


async def test_a_duplicate_delivery_sends_nothing_more(house: House) -> None:
    for _ in range(3):
        await accept(house.harness, message())
    assert stored(house) == [("test:1", True)] and len(house.sender.events) == 1


async def test_an_engine_that_is_away_is_no_reason_to_refuse(house: House) -> None:
    house.sender.broken = True
    await accept(house.harness, message())
    assert stored(house) == [("test:1", False)]
    house.sender.broken = False
    await accept(house.harness, message())
    assert stored(house) == [("test:1", True)] and house.sender.ids() == ["test:1:first"]


async def test_an_engine_that_hangs_holds_nobody_up(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announce, "SEND_WITHIN_S", 0.01)

    async def hang(_events: Sequence[Mapping[str, Any]]) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(house.sender, "send", hang)
    await accept(house.harness, message())
    assert stored(house) == [("test:1", False)]


async def test_killed_between_the_row_and_the_event(house: House) -> None:
    with kill_at("deposit.committed"):
        await accept(house.harness, message())
    assert stored(house) == [("test:1", False)] and house.sender.events == []
    await accept(house.harness, message())
    assert stored(house) == [("test:1", True)] and len(house.sender.events) == 1


async def test_an_input_without_a_key_is_a_fault_of_ours(house: House) -> None:
    with pytest.raises(ValueError, match="message key"):
        await accept(house.harness, message(key=None))


def stop(**changes: Any) -> CommandReceived:
    fields: dict[str, Any] = {"command": "stop", "session_key": SESSION, "channel": "test", "message_key": "k9"}
    return CommandReceived(**fields | {"destination": Destination(chat_id="7")} | changes)


async def test_a_command_lives_in_its_event_alone(house: House) -> None:
    await accept(house.harness, stop())
    assert stored(house) == [] and house.sender.ids() == ["k9:first"]
    assert house.sender.names() == ["agent.command.received"]


async def test_a_command_that_nobody_takes_is_refused(house: House) -> None:
    house.sender.broken = True
    with pytest.raises(ServiceUnavailable, match="send it again"):
        await accept(house.harness, stop())


async def test_the_platform_shows_that_it_arrived(house: House) -> None:
    shown = await show_received(house.harness, message(), "test:1")
    assert shown == {"shown": True, "look_again": "2026-01-05T12:01:01+00:00"}
    assert [d.chat_id for d in house.channel.acknowledged] == ["7"]
    assert stored(house) == [("test:1", False)]


async def test_an_event_that_no_webhook_stored_is_stored_once(house: House) -> None:
    """A sender that talks to the engine directly: the message is deposited by whoever sees it first."""
    for _ in range(2):
        await show_received(house.harness, message(key=None), "event:e1")
    assert [key for key, _ in stored(house)] == ["event:e1"]


@pytest.mark.parametrize("changes", [{"origin": "the watcher"}, {"channel": "gone"}])
async def test_machines_and_strangers_see_no_sign(house: House, changes: dict[str, str]) -> None:
    shown = await show_received(house.harness, message(**changes), "test:1")
    assert shown["shown"] is False and house.channel.acknowledged == []
    assert len(stored(house)) == 1
