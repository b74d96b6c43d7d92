"""transcribe: the words of a recording in the workspace, or a sentence that says why there are none."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.agent.tool import ToolResult
from app.errors import ConfigError
from app.speech import Speech
from tests.unit.voice.ears import Ears, words
from tests.unit.voice.recordings import AUDIO, SAID, WHY_SKIPPED, can_hear, word_error_rate
from tools.transcribe import transcribe

Call = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def recording(workspace: Path) -> Path:
    return Path(shutil.copy(AUDIO / "jfk.mp3", workspace / "talk.mp3"))


@pytest.mark.skipif(not can_hear(), reason=WHY_SKIPPED)
async def test_a_real_recording_is_put_into_words(call: Call, recording: Path) -> None:
    speech = Speech()
    result = await call(transcribe, {"speech": speech}, path="talk.mp3")
    await speech.close()
    about, _, text = result.text.partition("\n\n")
    assert about == "talk.mp3: 11 s, language en. What is said in it:"
    assert word_error_rate(SAID, text) <= 0.1, text


async def test_the_language_is_handed_on_and_doubts_are_told(call: Call, recording: Path) -> None:
    ears = Ears(words("perhaps", confidence=0.1, language="fr"))
    result = await call(transcribe, {"speech": ears}, path="talk.mp3", language="fr")
    assert ears.languages == ["fr"]
    assert "language fr; hard to understand, some words are likely to be wrong." in result.text


async def test_each_piece_is_a_sign_that_it_gets_on(call: Call, recording: Path) -> None:
    signs: list[int] = []
    await call(transcribe, {"speech": Ears("words"), "progress": lambda: signs.append(1)}, path="talk.mp3")
    assert signs == [1]


async def test_where_nobody_speaks_it_says_so(call: Call, recording: Path) -> None:
    result = await call(transcribe, {"speech": Ears("")}, path="talk.mp3")
    assert result.ok and "nobody is heard speaking" in result.text


async def test_only_files_of_the_workspace_are_listened_to(call: Call, workspace: Path, recording: Path) -> None:
    ears = Ears("words")
    (workspace / "link.mp3").symlink_to("/etc/passwd")
    for path in ("../talk.mp3", "missing.mp3", ".", "link.mp3"):
        assert not (await call(transcribe, {"speech": ears}, path=path)).ok
    assert ears.heard == []


async def test_what_is_missing_is_told_with_the_command_that_brings_it(call: Call, recording: Path) -> None:
    missing = ConfigError("Speech recognition is not installed: run `moab setup voice`.")
    result = await call(transcribe, {"speech": Ears(missing)}, path="talk.mp3")
    assert not result.ok and "moab setup voice" in result.text
    assert not (await call(transcribe, path="talk.mp3")).ok
