"""Files on the way to Telegram: in what form, from where only, and every failure as a value."""

import os
from pathlib import Path

import pytest

from app.channels import telegram as telegram_module
from app.channels import telegram_file
from app.channels.channel import Later, Refused, Sent, Unknown
from app.channels.telegram import TelegramChannel
from app.channels.telegram_file import Upload, caption_of, open_upload
from app.events import Destination
from tests.fakes.telegram_server import TOKEN, TelegramServer, units

HERE = Destination(chat_id="42")
GROUP = Destination(chat_id="-1001", message_id="7", thread_id="3")
PNG = b"\x89PNG\r\n\x1a\n" + b"p" * 100
VOICE = b"OggS" + b"\0" * 24 + b"OpusHead" + b"v" * 100


@pytest.fixture
async def telegram():
    async with TelegramServer() as server:
        yield server


@pytest.fixture
def workspace(tmp_path):
    root = tmp_path / "workspace"
    (root / "out").mkdir(parents=True)
    (root / "out" / "a.txt").write_bytes(b"text " * 1000)
    (root / "p.png").write_bytes(PNG)
    (root / "v.ogg").write_bytes(VOICE)
    return root


@pytest.fixture
async def channel(telegram, workspace):
    channel = TelegramChannel(TOKEN, telegram.url, workspace=workspace)
    yield channel
    await channel.close()


def part(file="out/a.txt", **more):
    return {"file": file, "name": file.rpartition("/")[2]} | more


async def test_a_document_arrives_whole_with_its_name_and_caption(telegram, channel):
    result = await channel.send(HERE, part(caption="The report & <b>"))
    (message,) = telegram.sent(42)
    assert result == Sent({"messageId": message["message_id"], "chatId": 42})
    assert message["document"] == {"file_name": "a.txt", "file_size": 5000}
    assert message["caption"] == "The report & <b>"


@pytest.mark.parametrize(
    ("file", "method"), [("p.png", "sendPhoto"), ("v.ogg", "sendVoice"), ("out/a.txt", "sendDocument")]
)
async def test_the_content_decides_the_form(telegram, channel, workspace, file, method):
    (workspace / "noname").write_bytes((workspace / file).read_bytes())
    assert isinstance(await channel.send(HERE, part("noname")), Sent)
    assert [call.method for call in telegram.calls()] == [method]
    assert "caption" not in telegram.calls()[0].params


async def test_music_and_large_pictures_are_documents(telegram, channel, workspace, monkeypatch):
    """The way in: "Music files sent to speech-to-text": here too music is a file, only Opus is a voice message."""
    (workspace / "music.ogg").write_bytes(b"OggS" + b"\0" * 24 + b"\x01vorbis" + b"m" * 100)
    await channel.send(HERE, part("music.ogg"))
    monkeypatch.setattr(telegram_file, "PHOTO_BYTES", 50)
    await channel.send(HERE, part("p.png"))
    assert [call.method for call in telegram.calls()] == ["sendDocument", "sendDocument"]


async def test_it_goes_to_the_topic_and_quotes_in_groups(telegram, channel):
    await channel.send(GROUP, part())
    (call,) = telegram.calls("sendDocument")
    assert (call.params["chat_id"], call.params["message_thread_id"]) == ("-1001", "3")
    assert call.params["reply_parameters"] == '{"message_id": 7, "allow_sending_without_reply": true}'


@pytest.mark.parametrize("description", ["Bad Request: PHOTO_INVALID_DIMENSIONS", "Bad Request: IMAGE_PROCESS_FAILED"])
async def test_a_picture_that_telegram_does_not_take_goes_as_a_document_whole(telegram, channel, description):
    telegram.script({"method": "sendPhoto", "kind": "status", "status": 400, "description": description})
    assert isinstance(await channel.send(HERE, part("p.png", caption="c")), Sent)
    (message,) = telegram.sent()
    assert message["document"]["file_size"] == len(PNG) and message["caption"] == "c"


async def test_an_unwanted_voice_message_goes_as_a_document(telegram, channel):
    refusal = {"kind": "status", "status": 400, "description": "Bad Request: VOICE_MESSAGES_FORBIDDEN"}
    telegram.script({"method": "sendVoice"} | refusal)
    assert isinstance(await channel.send(HERE, part("v.ogg")), Sent)
    telegram.script(refusal | {"times": None})
    assert isinstance(await channel.send(HERE, part("v.ogg")), Refused)


async def test_a_moved_chat_gets_the_whole_file_in_the_same_form(telegram, channel):
    telegram.script({"kind": "migrate", "to": -1009, "chat": -1001})
    result = await channel.send(GROUP, part("p.png"))
    assert isinstance(result, Sent) and result.receipt["chatId"] == -1009
    (message,) = telegram.sent()
    assert message["photo"]["file_size"] == len(PNG)


# The way out: 429 ... as asked, costs no attempt; ambiguous send -> never sent again blindly.
async def test_failures_are_the_same_values_as_for_texts(telegram, channel):
    telegram.script({"kind": "rate_limit", "retry_after": 37})
    assert (await channel.send(HERE, part())) == Later(37.0, "Too Many Requests: retry after 37", crowded=True)
    telegram.script({"kind": "forbidden"})
    assert isinstance(await channel.send(HERE, part("p.png")), Refused)
    telegram.script({"kind": "drop_after"})
    assert isinstance(await channel.send(HERE, part()), Unknown)
    telegram.script({"kind": "server_error"})
    assert isinstance(await channel.send(HERE, part()), Later)
    telegram.script({"kind": "status", "status": 413, "description": "Request Entity Too Large"})
    assert (await channel.send(HERE, part())) == Refused("Request Entity Too Large")
    assert len(telegram.calls()) == 5
    away = TelegramChannel(TOKEN, "http://127.0.0.1:9", workspace=channel._workspace)
    assert isinstance(await away.send(HERE, part()), Later)
    await away.close()


# TRAPS, Tools: "symlinks escape the workspace": looked at anew, since the part may have waited for hours.
async def test_only_files_of_the_workspace_go_out(telegram, channel, workspace, monkeypatch):
    (workspace.parent / "secret").mkdir()
    (workspace.parent / "secret" / "a.txt").write_text("secret")
    (workspace / "link.txt").symlink_to(workspace.parent / "secret" / "a.txt")
    (workspace / "door").symlink_to(workspace.parent / "secret")
    (workspace / "empty").touch()
    os.mkfifo(workspace / "fifo")
    outside = ["link.txt", "door/a.txt", "../secret/a.txt", str(workspace.parent / "secret" / "a.txt")]
    for file in [*outside, "gone.txt", "empty", "fifo", "out", "a\0b", "."]:
        assert isinstance(await channel.send(HERE, part(file)), Refused), file
    monkeypatch.setattr(telegram_file, "FILE_BYTES", 10)
    result = await channel.send(HERE, part())
    assert isinstance(result, Refused) and "has 5000 bytes; Telegram takes 1 to 10" in result.reason
    assert telegram.calls() == []


async def test_a_channel_without_a_workspace_says_so(telegram):
    channel = TelegramChannel(TOKEN, telegram.url)
    assert await channel.send(HERE, part()) == Refused("This channel knows no workspace to send files from.")
    await channel.close()


# TRAPS, Tools: "Whole body read into memory -> capped stream".
async def test_a_file_is_read_in_pieces_and_closed(telegram, channel, workspace, monkeypatch):
    os.truncate(workspace / "out" / "a.txt", 20_000_000)
    asked, opened = [], []

    class Watched:
        def __init__(self, file):
            self._file = file

        def read(self, size=-1):
            asked.append(size)
            return self._file.read(size)

        def __getattr__(self, name):
            return getattr(self._file, name)

        def __enter__(self):
            return self._file.__enter__()

        def __exit__(self, *error):
            return self._file.__exit__(*error)

    def watched(root: Path | None, wanted):
        upload = open_upload(root, wanted)
        opened.append(upload.file)
        return Upload(upload.method, upload.field, Watched(upload.file), upload.name)

    monkeypatch.setattr(telegram_module, "open_upload", watched)
    assert isinstance(await channel.send(HERE, part()), Sent)
    assert telegram.sent()[0]["document"]["file_size"] == 20_000_000
    assert len(asked) > 20 and all(0 < size <= 1_000_000 for size in asked)
    assert opened[0].closed


async def test_the_token_is_in_no_result(telegram, channel):
    telegram.script({"kind": "status", "status": 400, "description": f"Bad Request: /bot{TOKEN}/sendDocument"})
    telegram.script({"kind": "drop_before"})
    assert TOKEN not in repr([await channel.send(HERE, part()) for _ in range(2)])


def test_a_caption_is_cut_between_characters():
    assert caption_of({"caption": "x" * 1024}) == {"caption": "x" * 1024}
    cut = caption_of({"caption": "x" + "😀" * 1000})["caption"]
    assert units(cut) <= 1024 and cut.endswith("😀…")
    assert caption_of({}) == {}
