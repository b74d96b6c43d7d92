"""Answers read aloud, by a program of this machine: espeak-ng of Debian, or piper of PyPI with a voice.

`python -m app.aloud` is the process that has the words spoken and packs them as a voice message; it ends with each.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pyromark

from app.errors import ConfigError, ServiceUnavailable
from app.recording import pack
from app.sentences import Sentence

LONGEST_CHARS = 1_500
"""About two minutes: who wants more reads the text, which is sent in any case."""
WITHIN_S = 120.0
VOICE_WITHIN_S = 100.0
ENGLISH = "en"
ROOT = Path(__file__).resolve().parents[1]
OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
BREAKS = ("Paragraph", "Heading", "Item", "TableRow", "TableHead", "CodeBlock", "Table", "List", "BlockQuote")
SILENT = ("CodeBlock", "Table", "Image")
"""What nobody wants to have read out; the text has it."""
CODE_LEFT_OUT = {"CodeBlock": "The code is in the text.", "Table": "The table is in the text."}


def how(piper_voice: str = "") -> str:
    """What would read: `piper`, `espeak-ng`, or "" where nothing can. `piper_voice` is the file of a voice."""
    if importlib.util.find_spec("av") is None:
        return ""
    if piper_voice and importlib.util.find_spec("piper") is not None:
        return "piper"
    return "espeak-ng" if shutil.which("espeak-ng") else ""


def why_not() -> Sentence:
    """The sentence for a person who wants to hear answers where nothing can read them."""
    return Sentence(
        "Nothing can read answers aloud here: install espeak-ng (Debian and Ubuntu: apt install espeak-ng), or "
        "piper-tts and a voice of it (PIPER_VOICE), and run `moab setup voice` where this service runs."
    )


def spoken_words(markdown: str) -> str:
    """What is read aloud of a text: words without marks, code, tables and addresses, at most two minutes of them."""
    pieces = "".join(_pieces(markdown))
    text = re.sub(r"[ \t]+", " ", re.sub(r"https?://\S+", "", pieces))
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    text = "\n".join(line if line[-1] in ".!?:;…" else f"{line}." for line in lines)
    if len(text) <= LONGEST_CHARS:
        return text
    cut = text[:LONGEST_CHARS]
    end = max(cut.rfind(mark) for mark in (". ", "! ", "? ", ".\n", "!\n", "?\n"))
    return (cut[: end + 1] if end > 0 else cut.rpartition(" ")[0] or cut) + "\nThe rest is in the text."


def _pieces(markdown: str) -> Iterator[str]:
    silent = 0
    for event in pyromark.events(markdown, options=OPTIONS):
        if isinstance(event, str):
            yield "\n" if event == "HardBreak" else " "
            continue
        [(kind, what)] = cast(dict[str, Any], event).items()
        name = what if isinstance(what, str) else next(iter(what), "")
        if kind == "Start" and name in SILENT:
            if not silent:
                yield f"\n{CODE_LEFT_OUT.get(name, '')}\n"
            silent += 1
        elif kind == "End" and name in SILENT:
            silent -= 1
        elif kind in ("Start", "End") and name in BREAKS:
            yield "\n"
        elif kind in ("Text", "Code") and not silent:
            yield str(what)


async def read_aloud(
    words: str, to: Path, *, language: str = "", piper_voice: str = "", environment: Mapping[str, str] | None = None
) -> None:
    """Write `words` as a voice message (OGG with Opus) to `to`, whose folder is there.

    Raises ConfigError where nothing can read, ServiceUnavailable with what went wrong.
    """
    reader = how(piper_voice)
    if not reader:
        raise ConfigError(why_not())
    request = {"words": words, "to": str(to), "language": language, "reader": reader, "voice": piper_voice}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.aloud"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        cwd=ROOT,
        env=environment,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            _, said = await process.communicate(json.dumps(request).encode())
    except TimeoutError:
        raise ServiceUnavailable(f"{reader} did not end within {WITHIN_S:.0f} seconds.") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the program that it has started
            await process.wait()
    if process.returncode != 0:
        raise ServiceUnavailable(f"{reader} failed: {said.decode(errors='replace').strip()[-300:]}")


# From here on: the process that reads.


def main() -> int:
    """Read one request on stdin and have it spoken; what goes wrong stands on stderr."""
    request = json.loads(sys.stdin.read())
    with tempfile.TemporaryDirectory() as folder:
        wav, text = Path(folder) / "words.wav", Path(folder) / "words.txt"
        text.write_text(request["words"], "utf-8")
        try:
            _speak(request, text, wav)
            pack(wav, Path(request["to"]))
        except Exception as error:  # anything here must reach the log as a sentence, not as a traceback
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            return 1
    return 0


def _speak(request: Mapping[str, Any], text: Path, wav: Path) -> None:
    if request["reader"] == "piper":
        _run(sys.executable, "-m", "piper", "-m", request["voice"], "-i", str(text), "-f", str(wav))
        return
    command = ("espeak-ng", "-w", str(wav), "-f", str(text))
    language = request["language"] or ENGLISH
    try:
        _run(*command, "-v", language)
    except subprocess.CalledProcessError:  # it has no voice for every language
        if language == ENGLISH:
            raise
        _run(*command, "-v", ENGLISH)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=VOICE_WITHIN_S)  # noqa: S603 - our own words


if __name__ == "__main__":
    sys.exit(main())
