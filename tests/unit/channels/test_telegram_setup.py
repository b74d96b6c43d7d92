"""Setting the bot up at a terminal: checked, paired, kept; with the real channel and the fake Bot API."""

import asyncio
import re

import pytest

from app.channels import telegram_setup
from app.channels.telegram import set_up
from app.config import Settings
from app.errors import BadInput, ChannelError
from tests.fakes.telegram_server import TOKEN, TelegramServer

ADA = {"id": 5001, "is_bot": False, "first_name": "Ada", "language_code": "fr"}


@pytest.fixture
async def telegram():
    async with TelegramServer() as server:
        yield server


class Desk:
    """A person at a terminal who answers from a list, and presses start as soon as the code is shown."""

    def __init__(self, telegram, *answers, presses=True, allowed="", secret=""):
        self.telegram, self.answers, self.presses = telegram, list(answers), presses
        self.said, self.kept = [], {}
        self._given = {"telegram_api_base_url": telegram.url, "telegram_allowed_chats": allowed}
        self.kept |= {"telegram_webhook_secret": secret} if secret else {}

    @property
    def settings(self):
        return Settings(_env_file=None, **self._given | self.kept)

    def say(self, text):
        self.said.append(text)
        if "?start=" in text and self.presses:
            self.press(text)

    def press(self, text):
        found = re.search(r"\?start=(\w{8})", text)
        if found:
            chat = {"id": ADA["id"], "type": "private"}
            self.telegram.push({"update_id": 6, "message": {"from": {"id": 9}, "chat": {"id": 9}, "text": "hello?"}})
            text = f"/start {found[1]}"
            self.telegram.push({"update_id": 7, "message": {"from": ADA, "chat": chat, "text": text}})

    async def ask(self, question, *, default="", secret=False):
        assert secret == (question == "Token")
        return self.answers.pop(0)

    def keep(self, **settings):
        self.kept |= settings


async def test_without_an_address_messages_are_fetched(telegram):
    desk = Desk(telegram, TOKEN, "")
    await set_up(desk)
    assert desk.kept == {
        "telegram_bot_token": TOKEN,
        "telegram_allowed_chats": "5001",
        "approval_admins": "telegram:5001",
        "telegram_webhook_secret": "",
    }
    [hello] = telegram.sent(5001)
    assert hello["text"].startswith("Bonjour Ada !") and "/timezone" in hello["text"]
    assert telegram.webhook == {} and len(telegram.calls("setMyCommands")) == 5
    assert TOKEN not in " ".join(desk.said)


async def test_with_an_address_the_webhook_is_set_with_a_secret(telegram):
    desk = Desk(telegram, TOKEN, "https://moab.example.org/")
    await set_up(desk)
    assert telegram.webhook["url"] == "https://moab.example.org/webhooks/telegram"
    secret = desk.kept["telegram_webhook_secret"]
    assert telegram.webhook["secret_token"] == secret and len(secret) > 30
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret)


async def test_a_wrong_token_is_asked_for_again(telegram):
    desk = Desk(telegram, "123456:wrong", TOKEN, "")
    await set_up(desk)
    assert any("does not know this token" in line for line in desk.said)
    assert desk.kept["telegram_bot_token"] == TOKEN


async def test_three_wrong_tokens_end_it(telegram):
    with pytest.raises(BadInput, match="Three tokens were wrong"):
        await set_up(Desk(telegram, "1:a", "1:b", "1:c"))


@pytest.mark.parametrize("address", ["http://moab.example.org", "moab.example.org", "https://"])
async def test_an_address_that_telegram_would_not_take_is_refused(telegram, address):
    with pytest.raises(BadInput, match="accepted: https://host"):
        await set_up(Desk(telegram, TOKEN, address, address, address))


async def test_a_wrong_address_is_asked_for_again_and_the_end_says_where_it_all_is(telegram):
    desk = Desk(telegram, TOKEN, "moab.example.org", "")
    await set_up(desk)
    assert "accepted: https://host" in "\n".join(desk.said)
    assert str(desk.settings.home / ".env") in desk.said[-1] and "anew" in desk.said[-1]


async def test_another_poller_is_explained(telegram):
    telegram.script({"method": "getUpdates", "kind": "status", "status": 409, "description": "Conflict"})
    with pytest.raises(BadInput, match="Another program fetches"):
        await set_up(Desk(telegram, TOKEN, ""))


async def test_nobody_who_presses_start_ends_it_and_a_webhook_that_is_gone_has_no_secret(telegram, monkeypatch):
    monkeypatch.setattr(telegram_setup, "PAIR_WITHIN_S", 0.3)
    desk = Desk(telegram, TOKEN, "https://moab.example.org", presses=False, secret="of-the-old-webhook")
    with pytest.raises(BadInput, match="Nobody sent the code in time"):
        await asyncio.wait_for(set_up(desk), 20)
    assert desk.kept["telegram_webhook_secret"] == ""


async def test_what_waits_already_does_not_use_up_the_patience(telegram, monkeypatch):
    monkeypatch.setattr(telegram_setup, "LOOK_AGAIN_S", 0.001)
    telegram.push({"update_id": 3, "message": {"from": ADA, "chat": {"id": 5001, "type": "private"}, "text": "/start"}})
    desk = Desk(telegram, TOKEN, "", presses=False)
    setting_up = asyncio.create_task(set_up(desk))
    await telegram.wait_for("getUpdates", 40)
    assert not setting_up.done()
    desk.press(next(line for line in desk.said if "?start=" in line))
    await setting_up
    assert desk.kept["telegram_allowed_chats"] == "5001"


async def test_a_code_that_cannot_be_seen_among_a_hundred_is_said_to_be_so(telegram):
    for number in range(100):
        telegram.push({"update_id": number, "message": {"from": {"id": 9}, "chat": {"id": 9}, "text": "hello?"}})
    with pytest.raises(BadInput, match="A hundred messages wait"):
        await set_up(Desk(telegram, TOKEN, ""))


async def test_telegram_out_of_reach_is_said(telegram):
    telegram.script({"method": "getMe", "kind": "server_error"})
    with pytest.raises(ChannelError, match="Internal Server Error"):
        await set_up(Desk(telegram, TOKEN, ""))


async def test_who_was_allowed_before_stays_so(telegram):
    desk = Desk(telegram, TOKEN, "", allowed="4711,5001")
    await set_up(desk)
    assert desk.kept["telegram_allowed_chats"] == "4711,5001"
