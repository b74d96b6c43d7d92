"""Where Slack's payloads are taken in: in time, in the order of each chat, and with a word if nothing comes of it."""

import asyncio
from typing import Any

import pytest

from app.channels.slack import About, SlackChannel
from app.errors import ServiceUnavailable
from app.sentences import NOT_NOW, NOT_YET, NOT_YOUR_BUTTON, OLD_BUTTON, STRANGER, say
from tests.fakes.slack_server import TOKEN, SlackServer
from tests.unit.webhooks.test_slack_fixtures import payload_of
from webhooks import slack_desk
from webhooks.slack_desk import Desk, Heard

URL = "https://hooks.slack.com/actions/T0TEAM0001/1/x"


class People:
    """Slack as the desk asks it; `slow` are those about whom it says nothing until they are let go."""

    def __init__(self) -> None:
        self.whispered: list[tuple[str, str]] = []
        self.slow: dict[str, asyncio.Event] = {}

    async def about(self, user_id: str) -> About:
        if user_id in self.slow:
            await self.slow[user_id].wait()
        return About("Ada", "de-DE")

    async def whisper(self, url: str, text: str) -> bool:
        self.whispered.append((url, text))
        return True


class Door:
    """An `accept` that notes what it is given; everything there is set for it happens to each."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lets_in = True
        self.fault: Exception | None = None
        self.gate: asyncio.Event | None = None

    async def accept(self, event: Any) -> bool:
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.texts.append(getattr(event, "message", None) or event.command)
        return self.lets_in


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def message(text: str, number: int, user: str = "U0ADA00001", chat: str = "D0CHAT0001") -> dict[str, Any]:
    payload = payload_of("direct_message")
    event = payload["event"] | {"text": text, "user": user, "channel": chat, "ts": f"1764500000.00000{number}"}
    return payload | {"event": event}


async def test_what_slack_does_not_repeat_is_answered_in_words() -> None:
    door, people = Door(), People()
    door.fault = ServiceUnavailable("The engine does not take commands right now.")
    desk = Desk(door.accept, people)
    words = say(NOT_NOW, "de")
    assert await desk.take(payload_of("slash_command")) == Heard(True, {"response_type": "ephemeral", "text": words})
    assert await desk.take(payload_of("button")) == Heard(True)
    assert await desk.take(message("hello", 1)) == Heard(False), "Slack delivers it again"
    await settled()
    assert people.whispered == [(URL, words)]


async def test_what_takes_too_long_is_said_to_be_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_desk, "ANSWER_WITHIN_S", 0.01)
    door = Door()
    door.gate = asyncio.Event()
    desk = Desk(door.accept)
    heard = await desk.take(payload_of("slash_command"))
    assert heard == Heard(True, {"response_type": "ephemeral", "text": NOT_YET})
    door.gate.set()
    await settled()
    assert door.texts == ["status"]


async def test_a_stranger_who_presses_a_button_is_told_once_why_nothing_happens() -> None:
    door, people = Door(), People()
    door.lets_in = False
    desk = Desk(door.accept, people)
    for _ in range(2):
        assert await desk.take(payload_of("button")) == Heard(True)
    assert await desk.take(message("hello", 1)) == Heard(True)
    await settled()
    assert people.whispered == [(URL, say(NOT_YOUR_BUTTON, "de"))]


async def test_a_button_that_means_nothing_any_more_says_so() -> None:
    door, people = Door(), People()
    assert await Desk(door.accept, people).take(payload_of("button_of_another_kind")) == Heard(True)
    await settled()
    assert [text for _, text in people.whispered] == [say(OLD_BUTTON, "de")] and door.texts == []


async def test_a_strangers_slash_command_in_a_channel_is_answered_to_him_alone_and_once() -> None:
    door = Door()
    door.lets_in = False
    desk = Desk(door.accept, People())
    first, second = [await desk.take(payload_of("slash_command")) for _ in range(2)]
    assert first.body == {"response_type": "ephemeral", "text": say(STRANGER, "de")} and second == Heard(True)


# Order per conversation is kept, although several are taken in at once.
async def test_a_chat_is_stored_in_its_order_and_holds_up_no_other() -> None:
    door, people = Door(), People()
    people.slow = {"U0SLOW0001": asyncio.Event()}
    desk = Desk(door.accept, people)
    said = [message("first", 1, user="U0SLOW0001"), message("second", 2), message("elsewhere", 3, chat="D0CHAT0002")]
    tasks = [asyncio.create_task(desk.take(payload)) for payload in said]
    assert await tasks[2] == Heard(True) and door.texts == ["elsewhere"]
    people.slow["U0SLOW0001"].set()
    assert [await task for task in tasks] == [Heard(True)] * 3
    assert door.texts == ["elsewhere", "first", "second"]


async def test_what_could_not_be_stored_holds_up_nothing_behind_it() -> None:
    door = Door()
    door.gate, door.fault = asyncio.Event(), OSError("disk full")
    desk = Desk(door.accept)
    tasks = [asyncio.create_task(desk.take(message(text, n))) for n, text in enumerate(("first", "second"))]
    await settled()
    door.gate.set()
    assert await tasks[0] == Heard(False)
    door.fault = None
    assert await desk.take(message("third", 3)) == Heard(True)


async def test_a_whisper_is_for_who_pressed_and_leaves_the_message_as_it_is() -> None:
    async with SlackServer() as slack:
        channel = SlackChannel(TOKEN, slack.url)
        assert await channel.whisper(f"{slack.url}/commands/T1/1/x", "a & b")
        assert not await channel.whisper("https://elsewhere.example/x", "a")
        await channel.close()
    assert slack.ephemeral == [{"response_type": "ephemeral", "replace_original": False, "text": "a &amp; b"}]
