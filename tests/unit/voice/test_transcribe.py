"""A voice message is its transcript: heard once, kept as a file, and where it cannot be heard a sentence says why."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.agent.flow import Ending, Hearing
from app.agent.loop import run_turn
from app.agent.people.commands import run_command
from app.agent.transcribe import transcribe
from app.agent.turn import bodies_of
from app.errors import BadInput, ConfigError, ServiceUnavailable
from app.events import Attachment, CommandReceived, Destination
from app.sessions import edits
from app.speech import Speech
from app.tables import deliveries, messages, turns
from tests.unit.core.embedded import embedded
from tests.unit.house import RUN, SESSION, DirectSteps, House, begin, kill_at, message, run_id
from tests.unit.voice.ears import Ears, words
from tests.unit.voice.recordings import AUDIO, SAID, WHY_SKIPPED, can_hear, word_error_rate

VOICE = Attachment(kind="voice", ref="V1", mime="audio/ogg", size=5, duration_s=12)
NOT_INSTALLED = ConfigError("Speech recognition is not installed: run `moab setup voice`.")


def hearing(house: House, *answers: Any) -> tuple[House, Ears]:
    """The house with ears, and a recording that its channel brings."""
    house.channel.files |= {"V1": b"OggS1", "V2": b"OggS2"}
    ears = Ears(*answers)
    return replace(house, harness=replace(house.harness, speech=ears)), ears


async def turn(house: House, text: str = "", *files: Attachment, key: str = "test:1", run: str = RUN) -> Ending:
    conditions = await begin(house, text, key, run, attachments=files or (VOICE,))
    return await run_turn(DirectSteps(house), bodies_of(house.harness, conditions), conditions)


def shown(house: House) -> str:
    return str(house.model.requests[-1][1][-1]["content"])


def row_of(house: House, key: str = "test:1") -> Any:
    return next(row for row in house.rows(messages.select()) if row.message_key == key)


async def test_what_was_spoken_is_the_text_of_the_message_and_marked_so(house: House) -> None:
    house, _ = hearing(house, "Where is the key?")
    await turn(house)
    row = row_of(house)
    [file] = row.data["attachments"]
    assert row.text == "Where is the key?"
    assert shown(house).startswith(
        "[Spoken: a voice message of 12 s (en). What follows is its transcript.]\nWhere is the key?\n"
    )
    assert (house.harness.workspace.root / file["path"]).read_bytes() == b"OggS1"
    assert file["path"] in shown(house)


async def test_words_of_a_caption_stay_in_front(house: House) -> None:
    house, _ = hearing(house, "spoken words")
    await turn(house, "a caption")
    assert row_of(house).text == "a caption\n\nspoken words"


async def test_what_another_says_in_a_message_that_is_answered_is_quoted(house: House) -> None:
    house, _ = hearing(house, "Send him\nall of it.")
    await turn(house, "is that so?", VOICE.model_copy(update={"quoted": True}))
    assert row_of(house).text == "is that so?"
    assert '[Spoken in the message that is answered: "Send him all of it."]\nis that so?' in shown(house)


async def test_a_caption_that_is_edited_has_the_recording_heard_again_and_marked_once(house: House) -> None:
    house, ears = hearing(house, "spoken words", "spoken words")
    conditions = await begin(house, "a capton", attachments=(VOICE,))
    bodies = bodies_of(house.harness, conditions)
    await bodies.fetch()
    await bodies.transcribe()
    assert row_of(house).text == "a capton\n\nspoken words"
    changed = message("a caption", attachments=(VOICE,), edited="100")
    await house.db.write(edits.edit, changed, "test:1", house.clock.now())
    await turn(house, "a caption", VOICE, run=run_id(2))
    assert row_of(house).text == "a caption\n\nspoken words" and len(ears.heard) == 2
    assert len(row_of(house).data["marks"]) == 1


async def test_a_recording_that_is_hard_to_understand_is_said_to_be_so(house: House) -> None:
    house, _ = hearing(house, words("hm", confidence=0.2, language=""))
    await turn(house)
    assert "(" not in shown(house).partition("]")[0]
    assert "its transcript, and some of its words are likely to be wrong.]\nhm" in shown(house)


async def test_a_transcript_too_long_for_a_message_lies_beside_its_recording(house: House) -> None:
    house, _ = hearing(house, "word " * 10_000)
    await turn(house)
    row = row_of(house)
    path = f"{row.data['attachments'][0]['path']}.txt"
    assert len(row.text.encode()) <= 16_384 and path in row.text
    assert (house.harness.workspace.root / path).read_text() == "word " * 10_000


# The way in: music files sent to speech-to-text; a literal "[voice]" reaches the model.
async def test_music_is_a_file_and_not_listened_to(house: House) -> None:
    house, ears = hearing(house, "la la la")
    await turn(house, "nice?", Attachment(kind="audio", ref="V1"), Attachment(kind="document", ref="V2"))
    assert ears.heard == [] and "la la la" not in shown(house)


async def test_several_recordings_are_heard_in_their_order(house: House) -> None:
    house, ears = hearing(house, "one", "two")
    await turn(house, "", VOICE, Attachment(kind="video_note", ref="V2"))
    assert row_of(house).text == "one\n\ntwo" and len(ears.heard) == 2
    assert "a video note of 12 s" in shown(house)


async def test_killed_before_it_is_noted_it_is_heard_again_and_after_it_not(house: House) -> None:
    house, ears = hearing(house, "words")
    with kill_at("transcribe.heard"):
        await turn(house)
    await turn(house)
    await turn(house, "and?", Attachment(kind="photo"), key="test:2", run=run_id(2))
    assert len(ears.heard) == 2 and row_of(house).text == "words"


async def test_what_cannot_be_heard_is_told_in_a_sentence_and_no_model_is_asked(house: House) -> None:
    house, _ = hearing(house, NOT_INSTALLED)
    ending = await turn(house)
    assert ending.kind == "offered" and house.model.requests == []
    [row] = house.rows(deliveries.select())
    assert row.text == f"I cannot make out your voice message. {NOT_INSTALLED}"
    assert row_of(house).state == "answered"


async def test_beside_other_words_the_model_knows_why_and_the_person_too(house: House) -> None:
    house, _ = hearing(house, BadInput("1-0-voice.ogg holds no sound."))
    await turn(house, "Please listen to this")
    assert "what is said in it is not known: 1-0-voice.ogg holds no sound." in shown(house)
    notices = [row.text for row in house.rows(deliveries.select()) if row.kind == "notice"]
    assert notices == ["I cannot make out your voice message. 1-0-voice.ogg holds no sound."]


async def test_silence_is_told(house: House) -> None:
    house, _ = hearing(house, "")
    await turn(house)
    [row] = house.rows(deliveries.select())
    assert row.text == "I cannot make out your voice message. Nobody is heard speaking in it."


async def test_after_that_a_message_in_words_is_answered_by_the_model(house: House) -> None:
    house, ears = hearing(house, "")
    await turn(house)
    await turn(house, "I said hello", Attachment(kind="photo"), key="test:2", run=run_id(2))
    assert len(ears.heard) == 1 and house.channel is not None
    assert "I cannot make out" in str(house.model.requests[-1][1])


async def test_a_process_that_dies_is_asked_once_more(house: House) -> None:
    house, ears = hearing(house, ServiceUnavailable("It ended without a word."), "words")
    await turn(house)
    assert len(ears.heard) == 2 and row_of(house).text == "words"
    house, ears = hearing(house, ServiceUnavailable("It ended without a word."))
    assert (await turn(house, key="test:2", run=run_id(2))).kind == "offered"
    assert len(ears.heard) == 2


async def test_a_path_out_of_the_workspace_is_not_opened(house: House) -> None:
    house, ears = hearing(house, "secret")
    await turn(house, "", Attachment(kind="voice", path="../../moab.db"))
    assert ears.heard == []
    assert "leads outside the workspace" in house.rows(deliveries.select())[0].text


async def test_a_run_that_lost_the_session_hears_nothing(house: House) -> None:
    house, ears = hearing(house, "words")
    old = await begin(house, "", attachments=(VOICE,))
    await begin(house, "newer", "test:2", run_id(2))
    assert Hearing.model_validate(await transcribe(house.harness, old)).kind == "superseded"
    assert ears.heard == []


async def test_stopping_the_turn_ends_the_listening(house: House) -> None:
    listening = asyncio.Event()

    async def long() -> None:
        listening.set()
        await asyncio.Event().wait()

    house, _ = hearing(house, long)
    running = asyncio.ensure_future(turn(house))
    await listening.wait()
    [row] = house.rows(turns.select())
    assert row.activity == "listening, 50 %"
    stop = CommandReceived(command="stop", session_key=SESSION, channel="test", destination=Destination(chat_id="7"))
    await run_command(house.harness, stop, "test:stop")
    assert (await running).kind == "stopped"


async def test_an_edit_while_it_is_listened_to_keeps_the_new_caption(house: House) -> None:
    async def edit() -> None:
        changed = message("new", "test:1", attachments=(replace_ref("V2"),), edited="5")
        await house.db.write(edits.edit, changed, "test:1", house.clock.now())

    house, _ = hearing(house, edit)
    assert (await turn(house, "old")).kind in ("superseded", "stopped")
    assert row_of(house).text == "new"


def replace_ref(ref: str) -> Attachment:
    return VOICE.model_copy(update={"ref": ref})


async def test_what_came_in_long_ago_is_asked_about_by_its_kind(house: House) -> None:
    house, ears = hearing(house, "words")
    conditions = await begin(house, "", attachments=(VOICE,), sent_at="2026-01-01T12:00:00+00:00")
    assert 'this came in: "voice"' in conditions.question and ears.heard == []


@pytest.mark.skipif(not can_hear(), reason=WHY_SKIPPED)
async def test_a_real_voice_message_on_the_engine(tmp_path: Path, template: Path, clean_environment: None) -> None:
    async with embedded(tmp_path / "house", template) as life:
        speech = Speech()
        await life.restart(speech=speech)
        life.house.channel.files["V1"] = (AUDIO / "jfk.ogg").read_bytes()
        await life.send(message("", attachments=(VOICE,)))
        [row] = [row for row in life.house.rows(messages.select()) if row.role == "user"]
        assert word_error_rate(SAID, row.text) <= 0.1, row.text
        assert row.text in str(life.house.model.requests[-1][1][-1]["content"])
        assert life.house.channel.sent == ["Hello."]
        await speech.close()
