"""A voice message sent to a real service, by each way in: put into words, answered, and answered aloud if asked for."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.acceptance.service import Service
from tests.acceptance.slack_stage import SlackStage, deliver
from tests.acceptance.stage import Chat
from tests.fakes.process import FakeProcess
from tests.unit.voice.recordings import (
    AUDIO,
    SAID,
    WHY_SKIPPED,
    can_hear,
    spoken_wav,
    word_error_rate,
    write_reader,
)

pytestmark = pytest.mark.skipif(not can_hear(), reason=WHY_SKIPPED)


def test_killed_after_listening_it_is_put_into_words_and_answered_once(make_service: MakeService) -> None:
    service = make_service().start("transcribe.heard")
    recording = {
        "kind": "voice",
        "name": "note.ogg",
        "data": base64.b64encode((AUDIO / "jfk.ogg").read_bytes()).decode(),
    }
    body = {"attachments": [recording], "messageKey": "voice", "sessionKey": "http:voice"}

    assert service.post("/api/messages", body).status_code == 202
    assert service.ended() == -9
    service.start()
    answer = service.post("/api/messages", body, wait=20).json()
    service.settle()

    [row] = service.rows("SELECT text, data FROM messages WHERE role = 'user'")
    assert word_error_rate(SAID, row["text"]) <= 0.1
    assert answer["status"] == "answered" and row["text"] in answer["reply"]
    assert "Spoken: a voice message of 11 s (en)" in row["data"]
    inbox = list((service.home / "workspace" / "inbox").rglob("*.ogg"))
    assert [file.read_bytes() for file in inbox] == [(AUDIO / "jfk.ogg").read_bytes()]
    assert len(service.rows("SELECT id FROM deliveries WHERE state = 'sent'")) == 1
    check_transcripts(service)


def voice_note(chat: Chat) -> dict[str, Any]:
    """The update of a voice note in a chat, as the Bot API describes it; its file lies with Telegram."""
    update = chat.update("")
    del update["message"]["text"]
    size = (AUDIO / "jfk.ogg").stat().st_size
    voice = {"duration": 11, "mime_type": "audio/ogg", "file_id": "VOICE1", "file_unique_id": "v1", "file_size": size}
    update["message"]["voice"] = voice
    return update


def encoded(name: str) -> str:
    return base64.b64encode((AUDIO / name).read_bytes()).decode()


def check_heard(service: Service, said: str, kept: str) -> None:
    """The model was given the words, marked as spoken; its answer repeats them; the recording lies in the inbox."""
    [row] = service.rows("SELECT text, data FROM messages WHERE role = 'user'")
    assert word_error_rate(SAID, row["text"]) <= 0.1
    assert "Spoken: a voice message of 11 s (en). What follows is its transcript" in said and row["text"] in said
    [original] = (service.home / "workspace" / ".moab" / "people").glob(f"*/inbox/**/*{Path(kept).suffix}")
    assert original.read_bytes() == (AUDIO / kept).read_bytes()
    check_transcripts(service)


def test_a_voice_note_of_telegram_is_fetched_heard_and_answered_aloud(
    make_service: MakeService, tmp_path: Path
) -> None:
    """Of somebody who is no admin. The program that reads is a stand-in that plays a recording: machines differ."""
    write_reader(tmp_path, spoken_wav(tmp_path / "spoken.wav"))
    service = make_service(APPROVAL_ADMINS="", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}").start()
    chat = service.stage.chat()
    service.stage.telegram.control("/__files", {"files": {"VOICE1": encoded("jfk.ogg")}})
    service.say(chat, "/voice on")
    service.settle()

    assert service.update(voice_note(chat)) == 200
    service.settle()

    told, answer = service.stage.replies(chat)
    assert told == "Answers are read aloud too, from now on."
    check_heard(service, answer, "jfk.ogg")
    [fetched] = service.stage.telegram.calls("getFile")
    assert fetched["params"] == {"file_id": "VOICE1"}
    [spoken] = service.stage.telegram.calls("sendVoice")
    assert str(spoken["params"]["chat_id"]) == str(chat.id) and spoken["outcome"] == "ok"
    assert spoken["params"]["voice"]["size"] > 1000 and spoken["at"] > service.stage.attempts(chat)[-1]["at"]


def test_an_audio_clip_of_slack_is_fetched_heard_and_answered(make_service: MakeService) -> None:
    with FakeProcess("slack_server") as fake:
        slack = SlackStage(fake)
        service = make_service(**slack.settings()).start()
        chat = slack.chat()
        fake.control("/__files", {"files": {"F0VOICE001": encoded("jfk.m4a")}})
        clip = {"id": "F0VOICE001", "name": "audio_message.m4a", "mimetype": "audio/mp4", "subtype": "slack_audio"}
        payload = chat.payload("", subtype="file_share", files=[clip | {"mode": "hosted", "duration_ms": 11000}])
        payload["event"]["text"] = ""

        assert deliver(service, payload) == 200
        service.settle()

        [answer] = slack.replies(chat)
        check_heard(service, answer, "jfk.m4a")
        slack.close()
