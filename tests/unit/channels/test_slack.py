"""The way out to Slack: one attempt a part, every failure a value, and doubt that Slack itself can settle."""

import contextlib
import socket
from pathlib import Path

import pytest

from app.channels.channel import Absent, Channel, Fetched, Later, Refused, Sent, Unknown
from app.channels.slack import About, SlackChannel
from app.events import Attachment, Destination
from tests.fakes.slack_server import APP_TOKEN, TOKEN, SlackServer

HERE = Destination(chat_id="D1", message_id="1764500000.000100")
THREAD = Destination(chat_id="C1", message_id="1764500000.000200", thread_id="1764500000.000100")
SINCE = "2025-11-30T10:00:00+00:00"
PART = {"markdown": "**bold** & more", "text": "*bold* &amp; more", "key": "RUN/reply/0", "since": SINCE}


@pytest.fixture
async def slack():
    async with SlackServer() as server:
        yield server


@pytest.fixture
async def channel(slack, tmp_path):
    async with channel_to(slack.url, workspace=tmp_path) as channel:
        yield channel


@contextlib.asynccontextmanager
async def channel_to(url, token=TOKEN, **options):
    channel = SlackChannel(token, url, app_token=APP_TOKEN, **options)
    yield channel
    await channel.close()


async def test_a_part_is_sent_into_its_thread_and_the_receipt_names_it(slack, channel: Channel):
    result = await channel.send(THREAD, PART)
    (message,) = slack.said("C1")
    assert result == Sent({"messageId": message["ts"], "chatId": "C1"})
    assert message["blocks"] == [{"type": "markdown", "text": "**bold** & more"}]
    assert (message["text"], message["thread_ts"]) == ("*bold* &amp; more", "1764500000.000100")
    assert message["metadata"] == {"event_type": "moab_part", "event_payload": {"key": "RUN/reply/0"}}
    assert channel.name == "slack"


async def test_a_part_without_a_thread_stands_in_the_chat(slack, channel):
    await channel.send(HERE, {"text": "a notice"})
    (message,) = slack.said("D1")
    assert "thread_ts" not in message and "blocks" not in message and message["text"] == "a notice"


async def test_what_the_channel_renders_slack_takes(slack, channel):
    markdown = "# Hi\n\n**a** `b` [c](https://d.example/e) <b>&</b>\n\n```py\nx < 1\n```\n" + "😀 word & < " * 4000
    for part in channel.parts(markdown):
        assert isinstance(await channel.send(HERE, part), Sent)
    assert len(slack.said()) > 2


# Slack: markdown shown raw ... -> markdown blocks with escaped text as fallback.
async def test_where_blocks_are_refused_the_same_message_goes_out_in_its_plain_form(slack, channel):
    slack.script({"method": "chat.postMessage", "kind": "error", "error": "invalid_blocks"})
    (part,) = channel.parts("**bold** & <!channel>\n\n" + "word " * 1500)
    result = await channel.send(THREAD, part | {"key": "K"})
    (message,) = slack.said("C1")
    assert isinstance(result, Sent) and message["metadata"]["event_payload"] == {"key": "K"}
    sections = [block["text"]["text"] for block in message["blocks"]]
    assert len(sections) > 1 and sections[0].startswith("*bold* &amp; &lt;\u200b!channel&gt;")


async def test_buttons_stand_under_the_text_and_an_edit_takes_them_away(slack, channel):
    buttons = [[{"text": "Approve", "data": "approve K3"}, {"text": "Deny", "data": "deny K3"}]]
    sent = await channel.send(THREAD, PART | {"buttons": buttons})
    (message,) = slack.said("C1")
    row = message["blocks"][1]
    assert [(b["text"]["text"], b["value"]) for b in row["elements"]] == [
        ("Approve", "approve K3"),
        ("Deny", "deny K3"),
    ]
    edited = await channel.send(THREAD, PART | {"edit": sent.receipt["messageId"], "markdown": "approved"})
    (message,) = slack.said("C1")
    assert edited == sent and message["blocks"] == [{"type": "markdown", "text": "approved"}]


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        ({"kind": "rate_limit", "retry_after": 37}, Later(37.0, "Slack says ratelimited.", crowded=True)),
        ({"kind": "error", "error": "service_unavailable"}, Later(None, "Slack says service_unavailable.")),
        ({"kind": "error", "error": "token_revoked"}, Later(None, "Slack says token_revoked.")),
        ({"kind": "error", "error": "channel_not_found"}, Refused("Slack says channel_not_found.")),
        (
            {"kind": "error", "error": "missing_scope", "needed": "chat:write"},
            Refused("Slack says missing_scope (needed: chat:write)."),
        ),
        ({"kind": "error", "error": "fatal_error"}, Unknown("Slack says fatal_error.")),
        ({"kind": "server_error"}, Unknown("Slack answered with status 500.")),
        ({"kind": "error_after"}, Unknown("Slack says internal_error.")),
    ],
)
async def test_what_slack_says_is_a_value(slack, channel, fault, result):
    slack.script(fault | {"method": "chat.postMessage"})
    assert await channel.send(HERE, PART) == result
    assert len(slack.calls("chat.postMessage")) == 1


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "hang"])
async def test_a_lost_answer_is_doubt(slack, kind):
    async with channel_to(slack.url, read_s=0.2) as channel:
        slack.script({"method": "chat.postMessage", "kind": kind})
        assert isinstance(await channel.send(HERE, PART), Unknown)
        assert len(slack.calls("chat.postMessage")) == 1, "nothing is sent again blindly"


async def test_a_server_that_is_not_there_was_handed_nothing():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        async with channel_to(f"http://127.0.0.1:{free.getsockname()[1]}") as channel:
            result = await channel.send(HERE, PART)
    assert isinstance(result, Later) and result.reason.startswith("Slack cannot be reached")


# Ambiguous send (lost response) sent again by an SDK retry -> look up by metadata where the platform allows.
@pytest.mark.parametrize("where", [HERE, THREAD], ids=["in the chat", "in a thread"])
async def test_on_doubt_slack_is_asked_for_the_mark(slack, channel, where):
    slack.script({"method": "chat.postMessage", "kind": "drop_after"})
    assert isinstance(await channel.send(where, PART), Unknown)
    for number in range(7):  # more than a page, on both sides
        await channel.send(where, PART | {"key": f"RUN/other/{number}"})
    (lost, *_) = slack.said(where.chat_id)
    found = await channel.find(where, PART)
    assert found == Sent({"messageId": lost["ts"], "chatId": where.chat_id, "found": True})
    assert await channel.find(where, PART | {"key": "RUN/reply/1"}) == Absent()


async def test_only_what_was_said_since_is_looked_through(slack, channel):
    await channel.find(THREAD, PART)
    (call,) = slack.calls("conversations.replies")
    assert float(call.params["oldest"]) == 1764496800 - 300, "five minutes less: clocks differ"
    assert call.params["ts"] == "1764500000.000100" and call.params["include_all_metadata"] is True


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        ({"kind": "rate_limit", "retry_after": 60}, Later(60.0, "Slack says ratelimited.")),
        ({"kind": "server_error"}, Later(None, "Slack answered with status 500.")),
        ({"kind": "error", "error": "missing_scope", "needed": "im:history"},
         Unknown("Slack says missing_scope (needed: im:history).")),
    ],
)  # fmt: skip
async def test_a_question_that_is_not_answered_settles_nothing(slack, channel, fault, result):
    slack.script(fault | {"method": "conversations.history"})
    assert await channel.find(HERE, PART) == result


async def test_an_edit_may_be_made_twice(channel):
    assert await channel.find(HERE, PART | {"edit": "1.000001"}) == Absent()


async def test_eyes_at_once_and_none_when_it_is_done(slack, channel):
    assert await channel.acknowledge(HERE) and await channel.acknowledge(HERE)
    assert slack.signs("D1", "1764500000.000100") == {"eyes"}
    assert len(slack.calls("reactions.add")) == 1, "a long turn renews its sign every few seconds"
    assert await channel.conclude(HERE, ok=True) and await channel.conclude(HERE, ok=True)
    assert slack.signs("D1", "1764500000.000100") == set()


async def test_signs_wait_as_long_as_slack_asks(slack, channel):
    slack.script({"method": "reactions.add", "kind": "rate_limit", "retry_after": 30})
    assert await channel.acknowledge(HERE) == Later(30.0, "Slack says ratelimited.")
    again = await channel.acknowledge(THREAD)
    assert isinstance(again, Later) and 0 < again.after_s <= 30
    assert len(slack.calls("reactions.add")) == 1, "a turn that renews its sign does not ask on and on"
    slack.script({"method": "reactions.remove", "kind": "rate_limit", "retry_after": 7})
    assert await channel.conclude(HERE, ok=True) == Later(7.0, "Slack says ratelimited.")
    slack.script({"method": "reactions.remove", "kind": "server_error"})
    assert await channel.conclude(HERE, ok=True) == Later(None, "Slack answered with status 500.")
    slack.script({"method": "reactions.remove", "kind": "error", "error": "message_not_found"})
    assert await channel.conclude(HERE, ok=False) is False
    assert await channel.conclude(HERE, ok=True) is True


async def test_a_turn_that_failed_leaves_a_warning(slack, channel):
    await channel.acknowledge(HERE)
    assert await channel.conclude(HERE, ok=False)
    assert slack.signs("D1", "1764500000.000100") == {"warning"}


async def test_a_command_has_no_message_to_react_to(slack, channel):
    assert not await channel.acknowledge(Destination(chat_id="D1"))
    assert slack.calls("reactions.add") == []


async def test_an_answer_that_only_its_asker_sees_is_not_lost_either(slack, channel):
    slack.gone = {"C9"}
    there = Destination(chat_id="C9", reply_url=f"{slack.url}/commands/T1/1/x")
    for fault, result in (
        ({"kind": "rate_limit", "retry_after": 9}, Later(9.0, "Slack says ratelimited.")),
        ({"kind": "server_error"}, Later(None, "Slack answered with status 500.")),
    ):
        slack.script(fault | {"method": "response_url"})
        assert await channel.send(there, PART) == result
    slack.script({"method": "response_url", "kind": "drop_before"})
    assert isinstance(await channel.send(there, PART), Later), "to see it twice is better than not at all"
    assert await channel.send(there, PART) == Sent({"ephemeral": True})
    elsewhere = Destination(chat_id="C9", reply_url="https://elsewhere.example/x")
    assert isinstance(await channel.send(elsewhere, PART), Refused)


async def test_a_preview_is_one_message_that_the_answer_takes_over(slack, channel):
    shown = await channel.preview(THREAD, "I am", None)
    assert await channel.preview(THREAD, "I am thin", shown) == shown
    slack.script({"method": "chat.update", "kind": "rate_limit", "retry_after": 30})
    for text in ("I am thinking", "I am thinking of"):
        assert await channel.preview(THREAD, text, shown) == shown
    assert len(slack.calls("chat.update")) == 2, "where Slack asks to wait, nothing more is shown"
    await channel.send(THREAD, PART | {"edit": shown})
    (message,) = slack.said("C1")
    assert message["ts"] == shown and message["text"] == PART["text"]
    assert await channel.preview(THREAD, "  ", None) is None


async def test_an_answer_whose_preview_was_deleted_stands_by_itself(slack, channel):
    edit = {"edit": "1764500000.000009"}
    assert isinstance(await channel.send(THREAD, PART | edit | {"preview": True}), Sent)
    assert [message["text"] for message in slack.said("C1")] == [PART["text"]]
    assert isinstance(await channel.send(THREAD, PART | edit), Refused), "a prompt that is gone needs no closing line"


# Half an answer beside the whole one: a preview whose id nobody came to know is looked for by its mark.
async def test_the_answer_takes_the_place_of_a_preview_that_only_slack_knows(slack, channel):
    mark = "RUN/preview/0"
    part = PART | {"preview": True, "instead": {"mark": mark, "since": SINCE}}
    await channel.preview(THREAD, "half an ans", None, mark)
    slack.script({"method": "conversations.replies", "kind": "rate_limit", "retry_after": 9})
    assert await channel.send(THREAD, part) == Later(9.0, "Slack says ratelimited.")
    slack.script({"method": "chat.update", "kind": "drop_after"})
    assert isinstance(await channel.send(THREAD, part), Unknown)
    late = part | {"since": "2035-01-01T10:00:00+00:00"}
    assert isinstance(await channel.find(THREAD, late), Sent), "it has the mark of the answer now, and the old place"
    assert [message["text"] for message in slack.said("C1")] == [PART["text"]]


async def test_where_there_is_no_preview_the_answer_stands_by_itself_and_a_word_about_it_nowhere(slack, channel):
    instead = {"instead": {"mark": "RUN/preview/0", "since": SINCE}}
    assert await channel.send(THREAD, PART | instead | {"only_instead": True}) == Sent({"absent": True})
    assert slack.said() == []
    assert isinstance(await channel.send(THREAD, PART | instead | {"preview": True}), Sent)
    (message,) = slack.said("C1")
    assert message["metadata"]["event_payload"] == {"key": PART["key"]}


async def test_a_file_goes_through_the_current_upload(slack, channel, tmp_path: Path):
    (tmp_path / "a.txt").write_text("content")
    words = "Here **& there**, <!channel>"
    part = {"file": "a.txt", "name": "report.txt", "caption": words, "key": "K", "since": SINCE}
    assert isinstance(await channel.send(THREAD, part), Sent)
    (message,) = slack.said("C1")
    assert message["text"] == "Here *&amp; there*, &lt;\u200b!channel&gt;", "a caption calls nobody either"
    assert message["files"][0]["name"] == "report.txt" and message["thread_ts"] == THREAD.thread_id
    (put,) = slack.calls("upload")
    assert put.params["file"] == {"filename": "report.txt", "size": 7}
    assert put.params["authorization"] is None, "the address is a secret of its own"


async def test_before_the_last_step_of_an_upload_there_is_no_doubt(slack, channel, tmp_path):
    (tmp_path / "a.txt").write_text("content")
    for fault in (
        {"method": "files.getUploadURLExternal", "kind": "server_error"},
        {"method": "upload", "kind": "server_error"},
        {"method": "upload", "kind": "drop_before"},
    ):
        slack.script(fault)
        assert isinstance(await channel.send(THREAD, {"file": "a.txt"}), Later), fault
    assert slack.said() == []


async def test_a_file_in_doubt_is_found_by_its_name(slack, channel, tmp_path):
    (tmp_path / "a.txt").write_text("content")
    part = {"file": "a.txt", "name": "report.txt", "key": "K", "since": SINCE}
    assert await channel.find(THREAD, part) == Absent()
    slack.script({"method": "files.completeUploadExternal", "kind": "drop_after"})
    assert isinstance(await channel.send(THREAD, part), Unknown)
    assert isinstance(await channel.find(THREAD, part), Sent)
    slack.said("C1")[0]["user"] = "U0ADA00001"
    assert await channel.find(THREAD, part) == Absent(), "a person's own file of that name is no receipt"


async def test_a_file_outside_the_workspace_is_refused(channel):
    assert isinstance(await channel.send(THREAD, {"file": "../a.txt"}), Refused)


async def test_a_file_is_fetched_with_the_token(slack, channel, tmp_path):
    slack.files["F1"] = b"x" * 100
    to = tmp_path / "fetched"
    assert await channel.fetch(Attachment(kind="document", ref="F1"), to, 100) == Fetched(100)
    assert to.read_bytes() == b"x" * 100
    assert isinstance(await channel.fetch(Attachment(kind="document", ref="F1"), to, 99), Refused)
    assert await channel.fetch(Attachment(kind="document", ref="F2"), to, 99) == Refused("Slack says file_not_found.")
    slack.script({"method": "file", "kind": "rate_limit", "retry_after": 7})
    later = await channel.fetch(Attachment(kind="document", ref="F1"), to, 100)
    assert isinstance(later, Later) and later.after_s == 7


@pytest.mark.parametrize("address", ["http://files.slack.com/x", "https://slack.com.evil.example/x", "file:///etc/x"])
async def test_the_token_goes_to_slack_alone(slack, channel, tmp_path, monkeypatch, address):
    monkeypatch.setattr(slack, "_about", lambda params: {"file": {"url_private_download": address}})
    result = await channel.fetch(Attachment(kind="document", ref="F1"), tmp_path / "x", 100)
    assert result == Refused("The file does not lie at Slack.")


async def test_who_somebody_is_is_asked_for_once(slack, channel):
    slack.locale = "de-DE"
    ada = About("Ada", "de-DE", "Europe/Berlin")
    assert await channel.about("U1") == ada and await channel.about("U1") == ada
    assert len(slack.calls("users.info")) == 1
    slack.script({"method": "users.info", "kind": "server_error"})
    assert await channel.about("U2") == About() and await channel.about("U2") == ada
    slack.script({"method": "users.info", "kind": "slow", "delay_s": 5})
    assert await channel.about("U4") == About(), "nobody waits longer than a second for a name"
    slack.zone = "Mars/Olympus"
    assert (await channel.about("U3")).zone == ""


async def test_the_token_stands_in_no_reason_and_no_log(slack, caplog):
    caplog.set_level("DEBUG")
    async with channel_to(slack.url) as channel:
        await channel.send(HERE, PART)
        slack.script({"kind": "drop_before"})
        unknown = await channel.send(HERE, PART)
    assert TOKEN not in caplog.text and TOKEN not in unknown.reason
    assert isinstance(await channel.send(HERE, PART), Later), "closed"
