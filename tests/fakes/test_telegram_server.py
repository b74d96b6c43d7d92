import asyncio
import time

import httpx
import pytest

from tests.fakes.process import FakeProcess
from tests.fakes.telegram_server import TOKEN, TelegramServer


@pytest.fixture
async def telegram():
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def client():
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


async def post(client, server, method, **params):
    return (await client.post(f"{server.url}/bot{TOKEN}/{method}", json=params)).json()


async def test_a_message_is_taken_and_recorded(client, telegram):
    answer = await post(client, telegram, "sendMessage", chat_id=42, text="hello")
    assert answer["ok"] and answer["result"]["chat"] == {"id": 42, "type": "private"}
    assert telegram.sent(42) == [answer["result"]]
    assert telegram.calls("sendMessage")[0].params == {"chat_id": 42, "text": "hello"}


async def test_form_and_multipart_bodies_are_read(client, telegram):
    url = f"{telegram.url}/bot{TOKEN}/sendMessage"
    await client.post(url, data={"chat_id": "1", "text": "a&b é"})
    await client.post(url, data={"chat_id": "1", "text": "x"}, files={"document": ("a.txt", b"12345")})
    form, multipart = telegram.calls("sendMessage")
    assert form.params["text"] == "a&b é"
    assert multipart.params["document"] == {"filename": "a.txt", "size": 5}


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ({"text": "x"}, "chat_id is empty"),
        ({"chat_id": 1, "text": " "}, "text is empty"),
        ({"chat_id": 1, "text": "😀" * 2049}, "too long"),
        ({"chat_id": 1, "text": "😀", "entities": [{"type": "bold", "offset": 1, "length": 1}]}, "BOUNDS"),
        ({"chat_id": 1, "text": "abc", "entities": [{"type": "bold", "offset": 1, "length": 3}]}, "BOUNDS"),
        ({"chat_id": 1, "text": "abc", "entities": [{"type": "shiny", "offset": 0, "length": 3}]}, "Unsupported type"),
    ],
)
async def test_what_telegram_refuses_is_refused(client, telegram, params, part):
    answer = await post(client, telegram, "sendMessage", **params)
    assert answer["error_code"] == 400 and part in answer["description"]
    assert telegram.sent() == []


async def test_a_script_is_taken_in_order_and_by_chat(client, telegram):
    telegram.script(
        {"method": "sendMessage", "kind": "rate_limit", "retry_after": 7, "times": 2, "chat": 1},
        {"method": "sendMessage", "kind": "forbidden"},
    )
    limited = await post(client, telegram, "sendMessage", chat_id=1, text="x")
    assert limited["parameters"] == {"retry_after": 7}
    assert (await post(client, telegram, "sendMessage", chat_id=2, text="x"))["error_code"] == 403
    assert (await post(client, telegram, "sendMessage", chat_id=1, text="x"))["error_code"] == 429
    assert (await post(client, telegram, "sendMessage", chat_id=1, text="x"))["ok"]


async def test_a_dropped_connection_before_and_after_the_message_was_taken(client, telegram):
    telegram.script({"kind": "drop_before"}, {"kind": "drop_after"})
    for taken in (0, 1):
        with pytest.raises(httpx.RemoteProtocolError):
            await post(client, telegram, "sendMessage", chat_id=1, text="x")
        assert len(telegram.sent()) == taken


async def test_an_answer_comes_in_a_millisecond_or_so(client, telegram):
    await post(client, telegram, "getMe")
    started = time.monotonic()
    for _ in range(20):
        await post(client, telegram, "sendChatAction", chat_id=1, action="typing")
    assert (time.monotonic() - started) / 20 < 0.02


async def test_updates_are_kept_until_they_are_confirmed(client, telegram):
    telegram.push({"update_id": 5})
    assert (await post(client, telegram, "getUpdates"))["result"] == [{"update_id": 5}]
    assert (await post(client, telegram, "getUpdates", offset=6, timeout=30))["result"] == []


async def test_files_are_served(client, telegram):
    telegram.files["f1"] = b"voice"
    path = (await post(client, telegram, "getFile", file_id="f1"))["result"]["file_path"]
    assert (await client.get(f"{telegram.url}/file/bot{TOKEN}/{path}")).content == b"voice"


async def test_a_wrong_token_is_refused(client, telegram):
    assert (await client.post(f"{telegram.url}/bot1:x/getMe")).status_code == 401


async def test_waiting_for_calls(client, telegram):
    waiting = asyncio.create_task(telegram.wait_for("getMe"))
    await post(client, telegram, "getMe")
    assert len(await waiting) == 1
    with pytest.raises(TimeoutError):
        await telegram.wait_for("getMe", 2, within_s=0.01)


def test_the_separate_process_is_scripted_and_read_over_http(tmp_path):
    log = tmp_path / "calls.jsonl"
    with FakeProcess("telegram_server", "--log", str(log)) as fake:
        fake.script({"method": "sendMessage", "kind": "forbidden"})
        url = f"{fake.url}/bot{TOKEN}/sendMessage"
        for status in (403, 200):
            assert httpx.post(url, json={"chat_id": 1, "text": "x"}, trust_env=False).status_code == status
        assert [call["outcome"] for call in fake.calls("sendMessage")] == ["forbidden", "ok"]
        assert fake.calls()[0]["at"] < time.monotonic()
        assert [m["text"] for m in fake.control("/__sent", {})["messages"]] == ["x"]
    assert len(log.read_text().splitlines()) == 2
