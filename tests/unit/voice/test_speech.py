"""What is said in real recordings is heard, in every container, in pieces, beside the loop; what is none is refused."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from app import recording, speech
from app.config import load_settings
from app.errors import BadInput, ConfigError, ServiceUnavailable
from app.speech import Speech, speech_of
from tests.unit.voice.recordings import AUDIO, SAID, WHY_SKIPPED, can_hear, spoken_wav, word_error_rate, write_wav

BOUND = 0.1
"""Of 22 words at most two may be heard wrongly. (All 22 are heard rightly where this was written.)"""

hears = pytest.mark.skipif(not can_hear(), reason=WHY_SKIPPED)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listening() -> AsyncIterator[Speech]:
    made = Speech()
    yield made
    await made.close()


@hears
@pytest.mark.asyncio(loop_scope="module")
class TestHearing:
    @pytest.mark.parametrize("name", ["jfk.ogg", "jfk.mp3", "jfk.m4a"])
    async def test_a_real_recording_is_heard_word_by_word(self, listening: Speech, name: str) -> None:
        heard = await listening.transcribe(AUDIO / name)
        assert word_error_rate(SAID, heard.text) <= BOUND, heard.text
        assert heard.language == "en" and heard.seconds == pytest.approx(11, abs=0.1) and heard.confidence > 0.5

    async def test_wav_is_heard_too(self, listening: Speech, tmp_path: Path) -> None:
        heard = await listening.transcribe(spoken_wav(tmp_path / "spoken.wav"))
        assert word_error_rate(SAID, heard.text) <= BOUND, heard.text

    async def test_in_silence_nobody_speaks(self, listening: Speech, tmp_path: Path) -> None:
        """Without the search for voices the model hears "You" in it."""
        heard = await listening.transcribe(write_wav(tmp_path / "silence.wav", bytes(2 * 5 * recording.RATE)))
        assert heard.text == "" and heard.seconds == 5

    async def test_a_recording_with_damage_in_it_is_heard_as_far_as_it_goes(
        self, listening: Speech, tmp_path: Path
    ) -> None:
        whole = (AUDIO / "jfk.mp3").read_bytes()
        (tmp_path / "damaged.mp3").write_bytes(whole[:20_000] + bytes(range(256)) * 8 + whole[22_048:])
        (tmp_path / "cut.ogg").write_bytes((AUDIO / "jfk.ogg").read_bytes()[:20_000])
        assert "country" in (await listening.transcribe(tmp_path / "damaged.mp3")).text
        assert "my fellow" in (await listening.transcribe(tmp_path / "cut.ogg")).text

    async def test_what_is_no_recording_is_refused_by_its_name(self, listening: Speech, tmp_path: Path) -> None:
        (tmp_path / "page.ogg").write_text("<html>no sound</html>")
        (tmp_path / "empty.mp3").write_bytes(b"")
        for name in ("page.ogg", "empty.mp3", "missing.wav"):
            with pytest.raises(BadInput, match=name):
                await listening.transcribe(tmp_path / name)

    async def test_a_playlist_in_disguise_reads_no_other_file(self, listening: Speech, tmp_path: Path) -> None:
        shutil.copy(AUDIO / "jfk.mp3", tmp_path / "private.mp3")
        lists = {
            "hls.ogg": f"#EXTM3U\n#EXT-X-TARGETDURATION:11\n#EXTINF:11,\n{tmp_path}/private.mp3\n#EXT-X-ENDLIST\n",
            "concat.mp3": f"ffconcat version 1.0\nfile '{tmp_path}/private.mp3'\n",
        }
        for name, text in lists.items():
            (tmp_path / name).write_text(text)
            with pytest.raises(BadInput, match=name):
                await listening.transcribe(tmp_path / name)

    async def test_a_language_that_the_model_does_not_know_is_said(self, listening: Speech) -> None:
        with pytest.raises(ConfigError, match=r"'fr'.*WHISPER_MODEL"):
            await listening.transcribe(AUDIO / "jfk.ogg", language="fr")

    async def test_a_long_recording_goes_in_pieces_and_lets_others_in_between(
        self, listening: Speech, tmp_path: Path
    ) -> None:
        ended: list[str] = []
        done: list[tuple[float | None, ...]] = []

        async def note(*so_far: float | None) -> None:
            done.append(so_far)

        async def hear(path: Path) -> str:
            heard = await listening.transcribe(path, progress=note if path.name == "long" else None)
            ended.append(path.name)
            return heard.text

        long = spoken_wav(tmp_path / "long", times=6)
        texts = await asyncio.gather(hear(long), hear(AUDIO / "jfk.ogg"))
        assert ended == ["jfk.ogg", "long"]
        assert len(done) >= 2 and done[0][0] < done[-1][0] and done[-1] == pytest.approx((72, 72), abs=0.1)
        assert word_error_rate(" ".join([SAID] * 6), texts[0]) <= BOUND, texts[0]

    async def test_one_process_and_one_load_serve_all(self, listening: Speech) -> None:
        await listening.transcribe(AUDIO / "jfk.ogg")
        pid = listening.pid
        await asyncio.gather(*(listening.transcribe(AUDIO / "jfk.ogg") for _ in range(2)))
        assert listening.pid == pid is not None

    async def test_a_worker_that_dies_is_told_of_and_replaced(self, listening: Speech) -> None:
        await listening.transcribe(AUDIO / "jfk.ogg")
        waiting = asyncio.ensure_future(listening.transcribe(AUDIO / "jfk.ogg"))
        await asyncio.sleep(0)
        os.kill(listening.pid or 0, signal.SIGKILL)
        with pytest.raises(ServiceUnavailable, match="ended without a word"):
            await waiting
        assert (await listening.transcribe(AUDIO / "jfk.ogg")).text

    async def test_who_gives_up_does_not_leave_its_answer_to_the_next(self, listening: Speech, tmp_path: Path) -> None:
        silent = write_wav(tmp_path / "silence.wav", bytes(2 * 5 * recording.RATE))
        first = asyncio.ensure_future(listening.transcribe(AUDIO / "jfk.ogg"))
        await asyncio.sleep(0)
        first.cancel()
        assert (await listening.transcribe(silent)).text == ""
        assert first.cancelled()


@hears
async def test_the_memory_is_given_back_when_nobody_speaks() -> None:
    listening = Speech(idle_s=0)
    await listening.transcribe(AUDIO / "jfk.ogg")
    await asyncio.sleep(0.01)  # the timer of no seconds is due before this one
    assert listening.pid is None
    assert (await listening.transcribe(AUDIO / "jfk.ogg")).text
    await listening.close()


@hears
async def test_a_model_that_is_not_here_is_not_waited_for(tmp_path: Path) -> None:
    listening = Speech(model="small", models=tmp_path)
    with pytest.raises(ConfigError, match="moab setup voice --model small"):
        await listening.transcribe(AUDIO / "jfk.ogg")
    await listening.close()


@hears
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("WHISPER_MODEL", "small", "moab setup voice --model small"),
        ("WHISPER_LANGUAGE", "fr", "The language 'fr' is asked for"),
        ("WHISPER_DEVICE", "cuda", "WHISPER_DEVICE cuda"),  # tests run where there is none
        ("WHISPER_COMPUTE_TYPE", "int3", "WHISPER_COMPUTE_TYPE int3"),
    ],
)
async def test_each_setting_reaches_the_model_and_is_named_where_it_cannot_be(
    clean_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv("MOAB_HOME", str(tmp_path))
    monkeypatch.setenv(variable, value)
    listening = speech_of(load_settings())
    with pytest.raises(ConfigError, match=said):
        await listening.transcribe(AUDIO / "jfk.ogg")
    await listening.close()


async def test_where_nothing_is_installed_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "installed", lambda: False)
    with pytest.raises(ConfigError, match="moab setup voice"):
        await Speech().transcribe(AUDIO / "jfk.ogg")


@hears
def test_pieces_are_cut_where_it_is_quiet(tmp_path: Path) -> None:
    import numpy as np

    loud = np.full(4 * recording.RATE, 12_000, "<i2")
    loud[int(2.5 * recording.RATE) : int(2.8 * recording.RATE)] = 0
    path = write_wav(tmp_path / "tone.wav", np.tile(loud, 2).tobytes())
    pieces = list(recording.pieces_of(path, piece_s=3))
    assert [last for _, _, last in pieces] == [False] * (len(pieces) - 1) + [True]
    assert sum(len(samples) for samples, _, _ in pieces) == 8 * recording.RATE
    assert 2.5 <= len(pieces[0][0]) / recording.RATE <= 2.8


@hears
def test_a_recording_of_many_hours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_RECORDING_S", 2.0)
    path = write_wav(tmp_path / "endless.wav", bytes(2 * 3 * recording.RATE))
    with pytest.raises(BadInput, match="longer than"):
        list(recording.pieces_of(path))


def test_the_measure_counts_what_is_wrong() -> None:
    assert word_error_rate("ask not what", "Ask, not what!") == 0
    assert word_error_rate("a b c d", "a c d e") == pytest.approx(0.5)
    assert word_error_rate("a b", "") == 1
