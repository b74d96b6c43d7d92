"""A voice message posted to a real service: put into words beside everything else, and once more after a kill."""

import base64

import pytest

from tests.acceptance.conftest import MakeService
from tests.acceptance.rules import check_transcripts
from tests.unit.voice.recordings import AUDIO, SAID, WHY_SKIPPED, can_hear, word_error_rate

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
