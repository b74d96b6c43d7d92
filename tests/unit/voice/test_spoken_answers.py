"""Answers read aloud: off until somebody asks for it, sent behind the text, and never in its way."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import aloud
from app.agent.loop import run_turn
from app.agent.people.commands import run_command
from app.agent.turn import bodies_of
from app.aloud import LONGEST_CHARS, read_aloud, spoken_words
from app.channels.delivery import deliver_next
from app.channels.outbox import chat_key
from app.errors import ConfigError, ServiceUnavailable
from app.events import Attachment, CommandReceived, Destination
from app.speech import Speech
from app.tables import deliveries, messages
from tests.unit.house import RUN, SESSION, DirectSteps, House, begin, kill_at, run_id
from tests.unit.voice.ears import words
from tests.unit.voice.recordings import WHY_SKIPPED, can_hear, spoken_wav, write_reader
from tests.unit.voice.test_transcribe import VOICE, hearing

hears = pytest.mark.skipif(not can_hear(), reason=WHY_SKIPPED)
CHAT = Destination(chat_id="7")


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts an espeak-ng in the place of the machine's, which copies a recording or does what it is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def make(script: str = "") -> Path:
        return write_reader(folder, spoken_wav(tmp_path / "spoken.wav"), script)

    return make


async def command(house: House, args: str, number: int = 1, channel: str = "test") -> str:
    event = CommandReceived(command="voice", args=args, session_key=SESSION, channel=channel, destination=CHAT)
    await run_command(house.harness, event, f"test:voice-{number}")
    return str(house.rows(deliveries.select().order_by(deliveries.c.id.desc()))[0].text)


async def turn(house: House, run: str = RUN, key: str = "test:1", *files: Attachment) -> DirectSteps:
    conditions = await begin(house, "" if files else "hello", key, run, attachments=files)
    steps = DirectSteps(house)
    await run_turn(steps, bodies_of(house.harness, conditions), conditions)
    return steps


def spoken_rows(house: House) -> list[str]:
    return [row.part["file"] for row in house.rows(deliveries.select()) if row.kind == "file"]


@hears
async def test_an_answer_is_text_first_and_a_voice_message_behind_it(house: House, reader: Callable[..., Path]) -> None:
    asked = reader()
    assert (await turn(house)).ids == ["think", "finish"]
    assert await command(house, "on", 1) == "Answers are read aloud too, from now on."
    house.model.answers = ["**Hello** there"]
    assert (await turn(house, run_id(2), "test:2")).ids == ["think", "finish", "speak"]
    while (await deliver_next(house.db, house.harness.channels, house.clock, "b", chat_key("test", CHAT)))[
        "kind"
    ] != "done":
        pass
    text, spoken = house.channel.sent[-2:]
    assert text == "**Hello** there" and re.fullmatch(r"answer-\w{6}\.ogg", spoken)
    [file] = spoken_rows(house)
    assert (house.harness.workspace.root / file).read_bytes()[:4] == b"OggS"
    assert asked.read_text().count("\n") == 1
    assert await command(house, "off", 2) == "Answers are not read aloud, from now on."
    assert (await turn(house, run_id(3), "test:3")).ids == ["think", "finish"]


@hears
async def test_killed_after_reading_it_is_sent_once(house: House, reader: Callable[..., Path]) -> None:
    reader()
    await command(house, "on")
    conditions = await begin(house)
    bodies = bodies_of(house.harness, conditions)
    with kill_at("speak.read"):
        await run_turn(DirectSteps(house), bodies, conditions)
    request = {"head": house.rows(messages.select().where(messages.c.role == "assistant"))[0].id}
    for _ in range(2):
        assert (await bodies.speak(request))["kind"] == "done"
    assert len(spoken_rows(house)) == 1


@hears
async def test_it_is_read_in_the_language_that_was_spoken(house: House, reader: Callable[..., Path]) -> None:
    asked = reader('[ "$6" = xx ] && exit 1')
    house, _ = hearing(house, words("bonjour", language="fr"), words("?", language="xx"))
    await command(house, "on")
    await turn(house, run_id(1), "test:1", VOICE)
    await turn(house, run_id(2), "test:2", VOICE)
    assert [line.split()[-1] for line in asked.read_text().splitlines()] == ["fr", "xx", "en"]
    assert len(spoken_rows(house)) == 2


@hears
async def test_a_reader_that_fails_leaves_the_text_alone(
    house: House, reader: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    reader("echo no voice today >&2; exit 1")
    await command(house, "on")
    await turn(house)
    assert spoken_rows(house) == [] and "no voice today" in caplog.text
    assert [row.text for row in house.rows(deliveries.select()) if row.kind == "reply"] == ["Hello."]


async def test_where_nothing_can_read_it_is_not_turned_on(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "apt install espeak-ng" in await command(house, "on")
    assert await command(house, "", 2) == "Answers are not read aloud."
    assert await command(house, "loud", 3) == "There are /voice on and /voice off."
    with pytest.raises(ConfigError, match="espeak-ng"):
        await read_aloud("hello", Path("/nowhere/x.ogg"))


@hears
async def test_in_the_terminal_answers_stay_text(house: House, reader: Callable[..., Path]) -> None:
    reader()
    await command(house, "on")
    assert (await begin(house)).speaks
    assert not (await begin(house, "hello", "test:2", run_id(2), channel="terminal")).speaks


@hears
async def test_a_reader_that_hangs_is_ended(
    reader: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader("sleep 60")
    monkeypatch.setattr(aloud, "WITHIN_S", 0.5)
    with pytest.raises(ServiceUnavailable, match="did not end"):
        await read_aloud("hello", tmp_path / "x.ogg")


@hears
@pytest.mark.skipif(aloud.how() != "espeak-ng", reason="espeak-ng is not installed here")
async def test_what_the_machine_reads_can_be_heard(tmp_path: Path) -> None:
    """A robot's voice, so only some of its words are asked for."""
    await read_aloud("The train to Paris leaves in the morning from platform four.", tmp_path / "x.ogg")
    listening = Speech()
    heard = await listening.transcribe(tmp_path / "x.ogg")
    await listening.close()
    assert "train to paris" in heard.text.lower() and heard.seconds > 2


@pytest.mark.parametrize(
    ("markdown", "read"),
    [
        ("# Plan\n\nSee **this** and `that`", "Plan.\nSee this and that."),
        ("- one\n- two!", "one.\ntwo!"),
        ("Look at [the page](https://a.example) or https://b.example/x now", "Look at the page or now."),
        ("Do:\n\n```py\nrm -r /\n```\nDone", "Do:\nThe code is in the text.\nDone."),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "The table is in the text."),
        ("![a cat](cat.png)", ""),
        ("<b>bold</b> & so on", "bold & so on."),
    ],
)
def test_only_words_are_read(markdown: str, read: str) -> None:
    assert spoken_words(markdown) == read


def test_a_long_text_is_read_to_the_end_of_a_sentence() -> None:
    text = spoken_words("This is a sentence. " * 200)
    assert len(text) < LONGEST_CHARS + 40
    assert text.endswith("This is a sentence.\nThe rest is in the text.")


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert len(spoken_words(text)) <= LONGEST_CHARS + 40
