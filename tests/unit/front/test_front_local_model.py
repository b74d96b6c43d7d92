"""The keyless model: a real answer from a real process, and plain words where there is none."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import httpx
import pytest

from app import local_model
from app.errors import ConfigError, ServiceUnavailable
from app.local_model import COMMAND, ROOT, LocalModel

real = pytest.mark.skipif(
    not LocalModel.installed(), reason=f"the local model is not installed (`{local_model.INSTALL_COMMAND}`)"
)


@pytest.fixture
async def model() -> AsyncIterator[LocalModel]:
    model = LocalModel()
    yield model
    await model.stop()


def says(line: str) -> LocalModel:
    """A model whose process writes one line and waits for the end of its stdin."""
    return LocalModel([sys.executable, "-c", f"print({line!r}, flush=True); import sys; sys.stdin.read()"])


@real
async def test_it_answers_a_question(model: LocalModel) -> None:
    base_url = await model.start()
    body = {
        "model": local_model.MODEL_NAME,
        "messages": [{"role": "user", "content": "What is 2+2? Answer briefly."}],
        "temperature": 0,
        "max_tokens": 60,
    }
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        answer = (await http.post(base_url + "/chat/completions", json=body)).json()
    assert "4" in answer["choices"][0]["message"]["content"]
    assert answer["model"] == local_model.MODEL_NAME


@real
async def test_it_does_not_say_the_same_again_and_again(model: LocalModel) -> None:
    """Without the penalty this question is answered with one half of a sentence, many times over."""
    base_url = await model.start()
    system = {"role": "system", "content": "You are Moab, a helpful AI assistant."}
    body = {"messages": [system, {"role": "user", "content": "What is 2+2?"}], "temperature": 0, "max_tokens": 130}
    async with httpx.AsyncClient(trust_env=False, timeout=120) as http:
        answer = (await http.post(base_url + "/chat/completions", json=body)).json()
    words = answer["choices"][0]["message"]["content"].split()
    runs = [" ".join(words[place : place + 8]) for place in range(len(words) - 7)]
    assert runs and len(set(runs)) == len(runs), "eight words in a row, twice"


@real
def test_its_process_ends_when_stdin_closes() -> None:
    process = subprocess.Popen(COMMAND, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    with process.stdout:
        assert "url" in json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(5) == 0


async def test_concurrent_starts_share_one_process() -> None:
    model = says('{"url": "http://127.0.0.1:1/v1"}')
    urls = await asyncio.gather(*(model.start() for _ in range(5)))
    pid = model.pid
    assert urls == ["http://127.0.0.1:1/v1"] * 5
    assert await model.start() == urls[0] and model.pid == pid
    await model.stop()
    assert model.pid is None


async def test_it_is_started_again_if_it_died() -> None:
    model = says('{"url": "http://127.0.0.1:1/v1"}')
    await model.start()
    first = model.pid
    assert first
    os.kill(first, signal.SIGKILL)
    await model.ended()
    await model.start()
    assert model.pid not in (None, first)
    await model.stop()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [('{"error": "no memory"}', "no memory"), ("Segmentation fault", "without a word"), ("", "without a word")],
)
async def test_a_process_that_does_not_get_ready_is_a_sentence(line: str, sentence: str) -> None:
    model = says(line)
    with pytest.raises(ServiceUnavailable, match=sentence):
        await model.start()
    assert model.pid is None


async def test_a_process_that_never_gets_ready_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "READY_WITHIN_S", 0.05)
    model = LocalModel([sys.executable, "-c", "import sys; sys.stdin.read()"])
    with pytest.raises(ServiceUnavailable, match="not ready"):
        await model.start()


async def test_without_the_packages_the_sentence_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "weights", lambda: None)
    with pytest.raises(ConfigError, match=r"make local-model.*AGENT_MODEL"):
        await LocalModel().start()


async def test_stopping_what_does_not_run_is_nothing() -> None:
    await LocalModel().stop()
