import contextlib
import logging
import socket
import time

import pytest

from app.channels.channel import Absent, Channel, Later, Refused, Sent, Unknown
from app.channels.telegram import TelegramChannel
from app.errors import ChannelError
from app.events import Destination
from tests.fakes.telegram_server import TOKEN, TelegramServer

HERE = Destination(chat_id="42")
GROUP = Destination(chat_id="-1001", message_id="7", thread_id="3")
PART = {"text": "bold", "entities": [{"type": "bold", "offset": 0, "length": 4}]}


@pytest.fixture
async def telegram():
    async with TelegramServer() as server:
        yield server


@pytest.fixture
async def channel(telegram):
    channel = TelegramChannel(TOKEN, telegram.url)
    yield channel
    await channel.close()


@contextlib.asynccontextmanager
async def channel_to(url, **options):
    channel = TelegramChannel(TOKEN, url, **options)
    yield channel
    await channel.close()


async def test_a_part_is_sent_and_the_receipt_names_the_message(telegram, channel: Channel):
    result = await channel.send(HERE, PART)
    (message,) = telegram.sent(42)
    assert result == Sent({"messageId": message["message_id"], "chatId": 42})
    assert (message["text"], message["entities"]) == ("bold", PART["entities"])
    assert channel.name == "telegram"


async def test_what_the_channel_renders_telegram_takes(telegram, channel):
    markdown = "# Hi\n\n**a** `b` [c](https://d.example/e) <b>&</b>\n\n```py\nx < 1\n```\n" + "😀 word " * 2000
    for part in channel.parts(markdown):
        assert isinstance(await channel.send(HERE, part), Sent)
    assert len(telegram.sent()) > 2 and telegram.calls("sendMessage")[-1].outcome == "ok"


# The way in: forum topics ... answers land in the wrong topic -> topic is part of the destination.
async def test_the_answer_goes_to_the_topic_and_quotes_in_groups_only(telegram, channel):
    await channel.send(GROUP, PART)
    await channel.send(Destination(chat_id="42", message_id="7"), PART)
    group, private = [call.params for call in telegram.calls("sendMessage")]
    assert (group["chat_id"], group["message_thread_id"]) == (-1001, 3)
    assert group["reply_parameters"] == {"message_id": 7, "allow_sending_without_reply": True}
    assert "reply_parameters" not in private and "message_thread_id" not in private


# The way out: the plain retry is lost or shows raw tags -> fallback built from the source text, per part.
@pytest.mark.parametrize(
    "description",
    [
        "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 7",
        "Bad Request: can't parse MessageEntity: Unsupported type specified",
        "Bad Request: ENTITY_BOUNDS_INVALID",
        "Bad Request: Entity URL 'x' is invalid: Wrong HTTP URL",
    ],
)
async def test_refused_markup_is_sent_once_as_plain_text(telegram, channel, description):
    telegram.script({"kind": "status", "status": 400, "description": description})
    assert isinstance(await channel.send(HERE, PART), Sent)
    first, second = telegram.calls("sendMessage")
    assert first.params["entities"] and "entities" not in second.params
    assert second.params["text"] == "bold"


async def test_there_is_only_one_plain_fallback(telegram, channel):
    telegram.script({"kind": "parse_error", "times": None})
    assert isinstance(await channel.send(HERE, PART), Refused)
    assert len(telegram.calls("sendMessage")) == 2


# The way out: 429 with retry_after 37 s retried after 2 s -> durable sleep as asked.
async def test_a_rate_limit_is_handed_back_as_asked_without_a_retry(telegram, channel):
    telegram.script({"kind": "rate_limit", "retry_after": 37})
    result = await channel.send(HERE, PART)
    assert isinstance(result, Later) and result.after_s == 37
    assert len(telegram.calls("sendMessage")) == 1


async def test_a_rate_limit_without_a_time_has_the_default(telegram, channel):
    telegram.script({"kind": "status", "status": 429, "description": "Too Many Requests"})
    assert await channel.send(HERE, PART) == Later(None, "Too Many Requests", crowded=True)


@pytest.mark.parametrize(("kind", "words"), [("forbidden", "blocked"), ("chat_not_found", "chat not found")])
async def test_what_telegram_will_never_take_is_refused(telegram, channel, kind, words):
    telegram.script({"kind": kind})
    result = await channel.send(HERE, PART)
    assert isinstance(result, Refused) and words in result.reason
    assert len(telegram.calls("sendMessage")) == 1


async def test_what_stood_in_between_may_have_handed_the_part_on(telegram, channel):
    status = {"kind": "status", "status": 504, "description": "Gateway Timeout"}
    telegram.script({"kind": "bad_gateway"}, status)
    assert isinstance(await channel.send(HERE, PART), Unknown)
    assert isinstance(await channel.send(HERE, PART), Unknown)
    telegram.script({"kind": "bad_gateway"})
    assert isinstance(await channel.send(HERE, PART | {"edit": "1"}), Later), "a change may be made twice"


@pytest.mark.parametrize("kind", ["server_error", "unauthorized"])
async def test_a_fault_of_the_server_or_of_the_token_is_tried_later(telegram, channel, kind):
    telegram.script({"kind": kind})
    result = await channel.send(HERE, PART)
    assert isinstance(result, Later) and result.after_s is None and result.reason


async def test_a_moved_chat_is_followed_once_and_the_receipt_says_so(telegram, channel):
    telegram.script({"kind": "migrate", "to": -1009, "chat": -1001})
    result = await channel.send(GROUP, PART)
    assert isinstance(result, Sent) and result.receipt["chatId"] == -1009 and result.moved_to == "-1009"
    again = await channel.send(GROUP, PART)
    assert isinstance(again, Sent) and again.moved_to is None
    named = await channel.send(Destination(chat_id="@garden"), PART)
    assert isinstance(named, Sent) and named.moved_to is None
    assert "reply_parameters" not in telegram.calls("sendMessage")[1].params


@pytest.mark.parametrize("words", ["Bad Request: message thread not found", "Bad Request: TOPIC_CLOSED"])
async def test_what_was_for_a_topic_that_is_gone_goes_to_its_group(telegram, channel, words):
    refusal = {"kind": "status", "status": 400, "description": words}
    telegram.script(refusal)
    topic = Destination(chat_id="-1001", message_id="7", thread_id="3")
    assert isinstance(await channel.send(topic, PART), Sent)
    first, second = telegram.calls("sendMessage")
    assert first.params["message_thread_id"] == 3
    assert "message_thread_id" not in second.params and "reply_parameters" not in second.params
    telegram.script(refusal)
    assert isinstance(await channel.send(Destination(chat_id="42", thread_id="3"), PART), Refused)


async def test_chats_that_move_in_a_circle_end(telegram, channel):
    telegram.script({"kind": "migrate", "to": -2, "chat": -1, "times": None})
    telegram.script({"kind": "migrate", "to": -1, "chat": -2, "times": None})
    assert isinstance(await channel.send(Destination(chat_id="-1"), PART), Refused)
    assert len(telegram.calls("sendMessage")) == 3


async def test_a_refused_connection_handed_nothing_over():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    async with channel_to(f"http://127.0.0.1:{port}") as channel:
        result = await channel.send(HERE, PART)
    assert isinstance(result, Later) and result.after_s is None and "cannot be reached" in result.reason


async def test_an_unknown_host_handed_nothing_over():
    async with channel_to("http://telegram.invalid") as channel:
        assert isinstance(await channel.send(HERE, PART), Later)


# The way out: ambiguous send (lost response) sent again by a retry -> blind retries off, else say so.
@pytest.mark.parametrize("kind", ["drop_after", "drop_before"])
async def test_a_lost_answer_is_unknown_and_never_sent_again(telegram, channel, kind):
    telegram.script({"kind": kind})
    assert isinstance(await channel.send(HERE, PART), Unknown)
    assert len(telegram.calls("sendMessage")) == 1


async def test_a_late_answer_is_unknown(telegram):
    telegram.script({"kind": "hang"})
    async with channel_to(telegram.url, read_s=0.05) as channel:
        result = await channel.send(HERE, PART)
    assert isinstance(result, Unknown) and "ReadTimeout" in result.reason
    assert len(telegram.sent()) == 1


async def test_an_answer_that_is_not_telegrams_is_unknown(telegram, channel):
    telegram.script({"kind": "status", "status": 200, "description": "a proxy"})
    assert isinstance(await channel.send(HERE, PART), Unknown)


async def test_typing_is_shown_at_once_in_the_topic(telegram, channel):
    assert await channel.acknowledge(GROUP)
    assert telegram.calls("sendChatAction")[0].params == {"chat_id": -1001, "action": "typing", "message_thread_id": 3}


@pytest.mark.parametrize("kind", ["forbidden", "server_error", "drop_before", "rate_limit"])
async def test_typing_never_raises(telegram, channel, kind):
    telegram.script({"kind": kind})
    assert not await channel.acknowledge(HERE)


async def test_a_closed_channel_says_so(telegram):
    channel = TelegramChannel(TOKEN, telegram.url)
    await channel.close()
    assert await channel.send(HERE, PART) == Later(None, "The channel is closed.")
    assert not await channel.acknowledge(HERE)


async def test_any_other_method_can_be_called(telegram, channel):
    await channel.call("setWebhook", url="https://a.example/webhooks/telegram", secret_token="s")
    assert telegram.webhook["url"] == "https://a.example/webhooks/telegram"
    telegram.script({"method": "getMe", "kind": "unauthorized"})
    with pytest.raises(ChannelError, match="getMe: Unauthorized"):
        await channel.call("getMe")


async def test_one_connection_serves_all_parts_quickly(telegram, channel):
    await channel.acknowledge(HERE)
    started = time.monotonic()
    for _ in range(10):
        await channel.send(HERE, PART)
    assert (time.monotonic() - started) / 10 < 0.03


# Life and death: httpx logs the bot token in URLs (93,000 lines on one host) -> redaction in logs, errors, results.
async def test_the_token_reaches_no_log_no_result_and_no_error(telegram, channel, caplog):
    for name in (None, "httpx", "httpcore"):  # a service that ran before in this process has quietened them
        caplog.set_level(logging.DEBUG, logger=name)
    leaky = {"kind": "status", "status": 400, "description": f"Bad Request: /bot{TOKEN}/sendMessage"}
    telegram.script(leaky, {"kind": "drop_before"}, {"kind": "bad_gateway"}, leaky)
    seen = [await channel.send(HERE, {"text": "x"}) for _ in range(3)]
    with pytest.raises(ChannelError) as error:
        await channel.call("sendMessage", chat_id=1)
    seen += [await channel.send(HERE, PART), error.value, error.value.__cause__, error.value.__context__]
    async with channel_to("http://127.0.0.1:9") as unreachable:
        seen.append(await unreachable.send(HERE, PART))
    assert TOKEN not in repr(seen)
    assert "HTTP Request" in caplog.text  # the line that leaks elsewhere was written
    assert TOKEN.partition(":")[2] not in caplog.text


async def test_a_part_never_raises_whatever_is_in_it(telegram, channel):
    assert isinstance(await channel.send(Destination(chat_id="@name"), {"text": "\ud83d lone"}), Sent)
    assert isinstance(await channel.send(Destination(chat_id="nobody", message_id="x"), {"text": ""}), Refused)


async def test_buttons_stand_under_the_part(telegram, channel):
    rows = [[{"text": "Approve", "data": "approve K3"}, {"text": "Deny", "data": "deny K3"}]]
    assert isinstance(await channel.send(HERE, PART | {"buttons": rows}), Sent)
    (call,) = telegram.calls("sendMessage")
    assert call.params["reply_markup"] == {
        "inline_keyboard": [
            [{"text": "Approve", "callback_data": "approve K3"}, {"text": "Deny", "callback_data": "deny K3"}]
        ]
    }


async def test_a_part_in_the_place_of_another_takes_its_buttons_away(telegram, channel):
    sent = await channel.send(GROUP, PART)
    edited = await channel.send(GROUP, PART | {"text": "done", "entities": [], "edit": sent.receipt["messageId"]})
    assert edited == sent
    (call,) = telegram.calls("editMessageText")
    assert call.params == {"chat_id": -1001, "message_id": sent.receipt["messageId"], "text": "done"}
    assert isinstance(await channel.send(GROUP, PART | {"edit": 1}), Refused)


async def test_a_preview_grows_in_one_message_and_the_final_text_takes_its_place(telegram, channel):
    shown = await channel.preview(HERE, "Once **upon", None)
    assert await channel.preview(HERE, "Once **upon** a time", shown) == shown
    final = {**channel.parts("Once **upon** a time.")[0], "edit": shown, "preview": True}
    result = await channel.send(HERE, final)
    assert isinstance(result, Sent) and str(result.receipt["messageId"]) == shown
    assert len(telegram.calls("sendMessage")) == 1
    edits = [call.params["text"] for call in telegram.calls("editMessageText")]
    assert edits == ["Once upon a time", "Once upon a time."]


async def test_a_preview_that_is_gone_makes_the_final_text_a_message_of_its_own(telegram, channel):
    result = await channel.send(HERE, {"text": "All of it.", "edit": "999", "preview": True})
    assert isinstance(result, Sent)
    assert [message["text"] for message in telegram.sent(42)] == ["All of it."]


async def test_an_edit_without_an_answer_is_done_again(telegram, channel):
    """Unlike a message it may be done twice."""
    shown = await channel.preview(HERE, "half", None)
    telegram.script({"method": "editMessageText", "kind": "drop_after"})
    part = {"text": "whole", "edit": shown, "preview": True}
    assert isinstance(await channel.send(HERE, part), Later)
    assert isinstance(await channel.send(HERE, part), Sent)


async def test_what_says_the_same_already_is_sent(telegram, channel):
    why = "Bad Request: message is not modified: specified new message content is exactly the same"
    telegram.script({"method": "editMessageText", "kind": "status", "status": 400, "description": why})
    assert await channel.send(HERE, {"text": "same", "edit": "5"}) == Sent({"messageId": "5"})


async def test_previews_keep_quiet_as_long_as_telegram_asks(telegram, channel):
    shown = await channel.preview(HERE, "one", None)
    telegram.script({"method": "editMessageText", "kind": "rate_limit", "retry_after": 60})
    for text in ("one two", "one two three", "one two three four"):
        assert await channel.preview(HERE, text, shown) == shown
    assert len(telegram.calls("editMessageText")) == 1


async def test_a_preview_that_fails_is_none(telegram, channel):
    telegram.script({"method": "sendMessage", "kind": "forbidden"})
    assert await channel.preview(HERE, "one", None) is None


async def test_a_change_of_a_message_may_be_made_again_and_a_message_may_not(channel):
    assert isinstance(await channel.find(HERE, PART | {"edit": "7"}), Absent)
    assert isinstance(await channel.find(HERE, PART), Unknown)
