"""Files on the way from Telegram: whole, within the limit, with the token nowhere to be seen, every failure a value."""

import logging

import pytest

from app.channels.channel import Fetched, Later, Refused
from app.channels.telegram import TelegramChannel
from app.events import Attachment
from tests.fakes.telegram_server import TOKEN, TelegramServer

PHOTO = Attachment(kind="photo", ref="P1")
LIMIT = 5_000_000


@pytest.fixture
async def telegram():
    async with TelegramServer() as server:
        server.files["P1"] = b"jpeg" * 700_000
        yield server


@pytest.fixture(params=["", "/behind/a/proxy"])
async def channel(telegram, request):
    telegram.prefix = request.param
    channel = TelegramChannel(TOKEN, telegram.url + request.param)
    yield channel
    await channel.close()


async def test_a_file_comes_whole_and_the_token_shows_nowhere(telegram, channel, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    assert await channel.fetch(PHOTO, tmp_path / "p", LIMIT) == Fetched(2_800_000)
    assert (tmp_path / "p").read_bytes() == telegram.files["P1"]
    assert TOKEN not in caplog.text


async def test_more_than_the_limit_is_refused_while_it_comes(channel, tmp_path):
    assert await channel.fetch(PHOTO, tmp_path / "p", 1000) == Refused("The file is larger than 1000 bytes.")


async def test_what_telegram_does_not_know_is_refused_in_its_words(channel, tmp_path):
    found = await channel.fetch(Attachment(kind="photo", ref="P2"), tmp_path / "p", LIMIT)
    assert isinstance(found, Refused) and "wrong file_id" in found.reason


@pytest.mark.parametrize("kind", ["server_error", "drop_before", "bad_gateway"])
async def test_trouble_on_the_way_is_a_reason_to_come_again(telegram, channel, tmp_path, kind):
    telegram.script({"method": "getFile", "kind": kind})
    assert isinstance(await channel.fetch(PHOTO, tmp_path / "p", LIMIT), Later)


async def test_a_wait_is_as_long_as_telegram_asks(telegram, channel, tmp_path):
    telegram.script({"method": "getFile", "kind": "rate_limit", "retry_after": 37})
    found = await channel.fetch(PHOTO, tmp_path / "p", LIMIT)
    assert isinstance(found, Later) and found.after_s == 37


async def test_a_path_that_cannot_be_written_is_a_reason_to_come_again(channel, tmp_path):
    assert isinstance(await channel.fetch(PHOTO, tmp_path / "no" / "folder", LIMIT), Later)
