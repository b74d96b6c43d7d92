"""Start signals: short whatever the message, and noted as sent only when the engine took them."""

from app.agent.announce import SIGNAL_CHARS, start_message
from app.events import MessageReceived
from app.sessions.deposit import deposit
from app.tables import messages
from tests.unit.house import House, message


def deposited(house: House, event: MessageReceived) -> None:
    with house.tx() as tx:
        deposit(tx, event, "test:1", new_session_id="S", now=house.clock.now())


async def test_a_long_message_has_a_short_signal_and_a_whole_row(house: House) -> None:
    event = message("x" * 200_000)
    deposited(house, event)
    assert await start_message(house.harness, event, "test:1")
    (signal,) = house.sender.events
    assert len(signal["data"]["message"]) == SIGNAL_CHARS
    (row,) = house.rows(messages.select())
    assert len(row.text) == 200_000 and row.event_sent_at is not None


async def test_a_signal_that_was_not_taken_is_not_noted(house: House) -> None:
    house.sender.broken = True
    event = message()
    deposited(house, event)
    assert not await start_message(house.harness, event, "test:1")
    assert house.scalar(messages.select().with_only_columns(messages.c.event_sent_at)) is None
