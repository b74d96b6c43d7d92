"""Nothing holds up the event loop: no turn with tools, no long conversation, no import of the model client."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.agent.models.llm import Completion
from app.sessions import deposit, transcript
from app.speech import Speech
from tests.unit.core.embedded import embedded
from tests.unit.core.rules import ROOT
from tests.unit.house import House, message, wishes
from tests.unit.voice.recordings import WHY_SKIPPED, can_hear, spoken_wav

BOUND_S = 0.25
"""How long one callback may take. On a busy machine the scheduler alone may cost this much, hence the tries."""

TRIES = 3


@contextmanager
def watched() -> Iterator[list[tuple[float, str]]]:
    """(seconds, what) of every callback of the loop that took longer than BOUND_S."""
    slow: list[tuple[float, str]] = []
    real = asyncio.events.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        started = time.perf_counter()
        real(handle)
        if (took := time.perf_counter() - started) > BOUND_S:
            slow.append((took, repr(handle)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.events.Handle, "_run", timed)
        yield slow


async def never_slow(work: Callable[[int], Awaitable[None]]) -> None:
    """Fails if some callback of `work` is slow each time: what the machine does is not slow each time."""
    for attempt in range(TRIES):
        with watched() as slow:
            await work(attempt)
        if not slow:
            return
    raise AssertionError(f"callbacks held up the loop: {slow}")


def test_the_watch_sees_a_callback_that_blocks() -> None:
    async def block() -> None:
        time.sleep(BOUND_S + 0.02)  # noqa: ASYNC251 - that is the fault

    with watched() as slow:
        asyncio.run(block())
    assert len(slow) == 1


async def test_a_turn_with_tools(tmp_path: Path, template: Path, clean_environment: None) -> None:
    async def turn(attempt: int) -> None:
        async with embedded(tmp_path / str(attempt), template) as life:
            rounds = [wishes(("look", {"at": str(n)}), ("push", {"what": "x" * 20_000})) for n in range(5)]
            life.house.model.answers = [*rounds, Completion("word " * 5_000)]
            await life.send(message())
            assert len(life.house.channel.sent) == 1 and len(life.house.log) == 10

    await never_slow(turn)


async def test_a_burst_of_messages_of_many_chats(tmp_path: Path, template: Path, clean_environment: None) -> None:
    async def burst(attempt: int) -> None:
        async with embedded(tmp_path / str(attempt), template) as life:
            for number in range(20):
                await life.send(message(f"message {number}", f"k{number}", session_key=f"test:{number % 5}"))
            assert len(life.house.channel.sent) == 20

    await never_slow(burst)


async def test_a_long_conversation(tmp_path: Path, template: Path, clean_environment: None) -> None:
    """A thousand messages are read, pruned and shown between two breaths of the loop."""

    async def turn(attempt: int) -> None:
        async with embedded(tmp_path / str(attempt), template) as life:
            await asyncio.to_thread(fill, life.house, 1_000)
            await life.send(message("and now?", "newest"))
            assert life.house.channel.sent == ["Hello."] and len(life.house.model.requests[0][1]) > 900

    await never_slow(turn)


def fill(house: House, count: int) -> None:
    now = house.clock.now()
    with house.tx() as tx:
        for number in range(0, count, 2):
            key = f"old-{number}"
            deposit.deposit(tx, message("a question " * 20, key), key, new_session_id="S", now=now)
            head = deposit.attach_open(tx, "S")
            transcript.record_assistant(
                tx,
                "S",
                run_id=key,
                step_key="think#0",
                parent=head,
                text="an answer " * 30,
                new_calls=[],
                data={},
                now=now,
            )
            deposit.close_shown(tx, "S", key, "answered")


# Life and death: long audio blocks the event loop -> speech in a worker with progress, one model load, chunked.
@pytest.mark.skipif(not can_hear(), reason=WHY_SKIPPED)
async def test_listening_to_a_recording(tmp_path: Path) -> None:
    recording, listening = spoken_wav(tmp_path / "long.wav", times=6), Speech()

    async def listen(attempt: int) -> None:
        assert (await listening.transcribe(recording)).text

    await never_slow(listen)
    await listening.close()


IMPORT = """
import asyncio, sys, time
from app.agent.models.llm import LiteLLM

async def main():
    worst, last, done = 0.0, time.perf_counter(), False

    async def tick():
        nonlocal worst, last
        while not done:
            now = time.perf_counter()
            worst, last = max(worst, now - last), now
            await asyncio.sleep(0.005)

    ticking = asyncio.ensure_future(tick())
    started = time.perf_counter()
    await LiteLLM(timeout_s=5).warm()
    took, done = time.perf_counter() - started, True
    await ticking
    sys.stdout.write(f"{took} {worst}")

asyncio.run(main())
"""


async def test_the_model_client_is_imported_beside_the_loop() -> None:
    """It takes seconds in its thread; the loop goes on, if with stutters, because both need the interpreter."""
    environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION", "PATH": ""}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", IMPORT),
        cwd=ROOT,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    took, worst = map(float, out.decode().split())
    assert worst < max(took / 2, 1.0), (took, worst)
