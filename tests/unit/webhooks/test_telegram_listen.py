"""Long polling: nothing is confirmed that is not stored, and what is in the way is said once."""

import asyncio
import contextlib
import logging

import pytest

from app.channels.telegram import TelegramChannel
from app.clock import ManualClock
from app.config import Settings
from app.errors import ChannelError
from app.sentences import LANGUAGES
from tests.fakes.telegram_server import TOKEN, TelegramServer
from webhooks import telegram
from webhooks.telegram_listen import ANOTHER_POLLER, NO_WEBHOOK, WEBHOOK_IS_SET, WRONG_TOKEN, Itself, introduce, poll
from webhooks.telegram_said import Bot
from webhooks.way_in import Door


class Api:
    """Answers calls from a list; what is an error is raised. After the last one it waits for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []

    async def call(self, method, read_s=None, **params):
        self.calls.append((method, params))
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def offsets(self):
        return [params.get("offset") for method, params in self.calls if method == "getUpdates"]


class Times(ManualClock):
    """A clock whose sleepers wake at once; it notes how long they slept."""

    def __init__(self):
        super().__init__()
        self.slept = []

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


def said(number):
    return {"update_id": number, "message": {"text": str(number)}}


async def listened(api, take=None, clock=None):
    """What was taken until the API had nothing to say any more."""
    taken = []

    async def keep(update):
        taken.append(update["update_id"])

    task = asyncio.create_task(poll(api, clock or Times(), take or keep))
    for _ in range(200):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return taken


async def test_what_was_stored_is_confirmed_by_the_next_question():
    api = Api([said(5), said(6)], [], [said(7)])
    assert await listened(api) == [5, 6, 7]
    assert api.offsets == [None, 7, 7, 8]
    assert "message" in api.calls[0][1]["allowed_updates"] and "callback_query" in api.calls[0][1]["allowed_updates"]


# The way in: cold start drops pending updates -> acknowledge to the platform only after the event is durable.
async def test_what_could_not_be_stored_is_not_confirmed():
    api = Api([said(5), said(6)])
    seen = []

    async def full(update):
        seen.append(update["update_id"])
        if update["update_id"] == 6:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):  # `listen` of app/platforms.py says so and begins again
        await poll(api, Times(), full)
    assert seen == [5, 6] and api.offsets == [None]


async def test_another_poller_is_explained_once(caplog):
    caplog.set_level(logging.INFO, "moab")
    conflict = ChannelError("getUpdates: Conflict: terminated by other getUpdates request", 409)
    api = Api(conflict, conflict, conflict, [said(5)], [])
    assert await listened(api) == [5]
    words = [record.getMessage() for record in caplog.records]
    assert words == [ANOTHER_POLLER, "Messages of Telegram come in again."]


async def test_a_webhook_in_the_way_is_explained(caplog):
    webhook = ChannelError("getUpdates: Conflict: can't use getUpdates method while webhook is active", 409)
    await listened(Api(webhook, []))
    assert WEBHOOK_IS_SET in caplog.text


async def test_trouble_backs_off_and_a_wait_is_as_long_as_asked():
    clock = Times()
    away = ChannelError("getUpdates: Telegram cannot be reached")
    await listened(Api(*[away] * 7, [], ChannelError("Too Many Requests", 429, 37.0), away, []), clock=clock)
    assert clock.slept == [1, 2, 5, 15, 30, 60, 60, 37, 2]


async def test_a_wrong_token_ends_it(caplog):
    await asyncio.wait_for(poll(Api(ChannelError("Unauthorized", 401)), Times(), None), 5)
    assert WRONG_TOKEN in caplog.text
    assert await introduce(Api(ChannelError("Unauthorized", 401)), Times(), Itself(Bot("1"))) is False


async def test_the_bot_learns_its_name_and_registers_its_commands_in_every_language():
    itself = Itself(Bot("123456"))
    api = Api(ChannelError("away"), {"username": "moab_bot"}, *[True] * len(LANGUAGES))
    assert await introduce(api, Times(), itself)
    assert itself.bot == Bot("123456", "moab_bot")
    registered = [params for method, params in api.calls if method == "setMyCommands"]
    assert [params.get("language_code", "en") for params in registered] == list(LANGUAGES)
    assert {"command": "stop", "description": "End what I am doing"} in registered[0]["commands"]
    assert {"command": "stop", "description": "Beenden, was ich tue"} in registered[1]["commands"]


async def test_who_cannot_be_reached_is_said_once_and_a_refused_menu_holds_nothing_up(caplog):
    away = ChannelError("getMe: Telegram cannot be reached")
    api = Api(away, away, {"username": "moab_bot"}, ChannelError("setMyCommands: Bad Request", 400))
    assert await introduce(api, Times(), Itself(Bot("123456")))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings[0] == str(away) and "list of commands" in warnings[1] and len(warnings) == 2


@pytest.mark.parametrize(("info", "warned"), [({"url": ""}, True), ({"url": "https://moab.example.org"}, False)])
async def test_a_secret_without_a_webhook_is_warned_of(caplog, info, warned):
    api = Api({"username": "moab_bot"}, *[True] * len(LANGUAGES), info)
    settings = Settings(_env_file=None, telegram_bot_token=TOKEN, telegram_webhook_secret="s3cret")
    await telegram.way_in(Door(settings, Times(), api, None, None, None)).listen()
    assert (NO_WEBHOOK in caplog.text) is warned


async def test_with_only_a_token_updates_are_fetched_and_buttons_answered():
    """The whole way in, from the platform's file to the fake Bot API: one transform for both ways."""
    accepted = []

    async def accept(event):
        accepted.append(event)

    async with TelegramServer() as server:
        channel = TelegramChannel(TOKEN, server.url)
        settings = Settings(_env_file=None, telegram_bot_token=TOKEN)
        way = telegram.way_in(Door(settings, ManualClock(), channel, accept, None, None))
        assert way.router is None
        chat, ada = {"id": 42, "type": "private"}, {"id": 5, "is_bot": False, "first_name": "Ada"}
        message = {"message_id": 7, "date": 1, "chat": chat, "from": ada, "text": "hello"}
        server.push({"update_id": 1, "message": message})
        query = {"id": "88", "from": ada, "message": message, "data": "vote"}
        server.push({"update_id": 2, "callback_query": query})
        task = asyncio.create_task(way.listen())
        [answered] = await server.wait_for("answerCallbackQuery")
        await server.wait_for("getUpdates", 2)
        task.cancel()
        await channel.close()
        assert answered.params["callback_query_id"] == "88" and "another time" in answered.params["text"]
        assert server.updates == [] or server.calls("getUpdates")[-1].params["offset"] == 3
    assert [event.message for event in accepted] == ["hello"]
