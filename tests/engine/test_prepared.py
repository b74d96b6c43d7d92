"""While the disk takes in a claim, the call finds its way to its app; the app learns nothing before it is there."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.engine import writer
from app.engine.errors import StoreFailed
from app.engine.writer import Writer
from tests.engine.lab import Lab, running
from tests.engine.recorder import Recorder

_WAIT_S = 20


async def others() -> None:
    """Let everybody else do what there is to do."""
    for _ in range(100):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def busy(lab: Lab) -> AsyncIterator[None]:
    """The writer has something else to do, and what is asked of it meanwhile queues up."""
    gate = threading.Event()
    held = lab.engine._core.store._writer.read(lambda connection: gate.wait(_WAIT_S))
    try:
        yield
    finally:
        gate.set()
        await held


class SlowDisk:
    """Stops the writer before each commit that makes a call ready, until it is told to go on or to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._loop = asyncio.get_running_loop()
        self._go = threading.Event()
        self._stopped = asyncio.Event()
        self._fails = False
        in_loop = Writer._in_loop

        def stopping(this: Writer, act: Any, items: list[Any]) -> None:
            in_loop(this, act, items)
            if act is writer._prepare and items:
                self._loop.call_soon_threadsafe(self._stopped.set)
                self._go.wait(_WAIT_S)
                if self._fails:
                    raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(Writer, "_in_loop", stopping)
        monkeypatch.setattr(writer, "_WORTH_PREPARING_S", -1)

    async def stopped(self) -> None:
        """Return when the disk works on a commit, and everybody else has done what there is to do."""
        await asyncio.wait_for(self._stopped.wait(), _WAIT_S)
        await others()

    async def sending(self, lab: Lab) -> "asyncio.Task[list[str]]":
        """An event is sent, and the disk works on its run."""
        sending = asyncio.create_task(lab.engine.send([{"name": "plain"}]))
        await self.stopped()
        return sending

    def go_on(self, *, fails: bool = False) -> None:
        self._fails = fails
        self._go.set()


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that an app is entered for a call."""
    entered: list[str] = []
    call = Recorder.__call__

    async def counted(self: Recorder, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            entered.append(scope["path"])
        await call(self, scope, receive, send)

    monkeypatch.setattr(Recorder, "__call__", counted)
    return entered


@pytest.fixture
def done() -> list[str]:
    return []


@pytest.fixture
def build(done: list[str]) -> Any:
    def functions(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="plain", trigger=inngest.TriggerEvent(event="plain"))
        async def plain(ctx: inngest.Context) -> str:
            done.append("plain")
            return "ended"

        return [plain]

    return functions


async def test_a_call_is_prepared_while_its_claim_is_written_and_told_when_it_is_on_disk(
    tmp_path: Path, build: Any, done: list[str], entered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "engine.db", build) as lab:
        disk = SlowDisk(monkeypatch)
        sending = await disk.sending(lab)
        assert (len(entered), done, sending.done()) == (1, [], False)
        disk.go_on()
        run = await lab.run_of((await sending)[0])
        await lab.engine.idle()
        run = await lab.engine.run(run.run.id)
    assert (run.run.status, run.run.output, done, len(entered)) == ("Completed", "ended", ["plain"], 1)


async def test_a_run_that_is_cancelled_while_its_claim_is_written_does_nothing(
    tmp_path: Path, build: Any, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "engine.db", build) as lab:
        disk = SlowDisk(monkeypatch)
        sending = await disk.sending(lab)
        (run_id,) = lab.engine._core.live.runs
        cancelling = asyncio.create_task(lab.engine.cancel(run_id))
        await asyncio.sleep(0)
        disk.go_on()
        await asyncio.gather(sending, cancelling)
        await lab.engine.idle()
        run = await lab.engine.run(run_id)
    assert (run.run.status, done) == ("Cancelled", [])


async def test_a_claim_that_cannot_be_written_is_a_call_that_was_not_made(
    tmp_path: Path, build: Any, done: list[str], entered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "engine.db", build) as lab:
        disk = SlowDisk(monkeypatch)
        sending = await disk.sending(lab)
        disk.go_on(fails=True)
        with pytest.raises(StoreFailed, match="disk I/O error"):
            await sending
        await lab.engine.idle()
        assert (len(entered), done, lab.engine.healthy) == (1, [], False)


async def test_stop_while_a_claim_is_written_leaves_the_call_to_the_next_start(
    tmp_path: Path, build: Any, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path / "engine.db", build)
    await lab.start()
    disk = SlowDisk(monkeypatch)
    sending = await disk.sending(lab)
    stopping = asyncio.create_task(lab.engine.stop(grace_s=0))
    await asyncio.sleep(0)
    disk.go_on()
    (event_id,) = await sending
    await stopping
    assert done == []
    monkeypatch.undo()
    async with running(tmp_path / "engine.db", build) as again:
        await again.engine.idle()
        run = await again.run_of(event_id)
    assert (run.run.status, done) == ("Completed", ["plain"])


async def test_a_call_is_told_of_the_step_that_ended_beside_it_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave = {"p": asyncio.Event(), "q": asyncio.Event()}

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="raced", trigger=inngest.TriggerEvent(event="raced"))
        async def raced(ctx: inngest.Context) -> Any:
            async def body(name: str) -> str:
                await leave[name].wait()
                return name

            return await ctx.group.parallel(
                (lambda: ctx.step.run("p", body, "p"), lambda: ctx.step.run("q", body, "q")),
                parallel_mode=inngest.ParallelMode.RACE,
            )

        return [raced]

    async with running(tmp_path / "engine.db", build) as lab:
        (event_id,) = await lab.engine.send([{"name": "raced"}])
        while len(lab.app.calls) < 3:  # noqa: ASYNC110 - both steps are being executed
            await asyncio.sleep(0)
        disk = SlowDisk(monkeypatch)
        leave["p"].set()
        await disk.stopped()
        leave["q"].set()
        await others()
        disk.go_on()
        await lab.engine.idle()
        run = await lab.run_of(event_id)
    told = [(set(call.body["ctx"]["stack"]["stack"]), set(call.body["steps"])) for call in lab.app.calls]
    assert run.run.output == ["p", "q"]
    assert all(stack == steps for stack, steps in told), told


@pytest.mark.parametrize(("worth_s", "prepares"), [(10.0, False), (0.0, True)])
async def test_only_a_disk_that_takes_its_time_is_worth_preparing_for(
    tmp_path: Path, build: Any, monkeypatch: pytest.MonkeyPatch, worth_s: float, prepares: bool
) -> None:
    """The writer measures it by commits that have nothing to prepare."""
    monkeypatch.setattr(writer, "_WORTH_PREPARING_S", worth_s)
    prepared: list[Any] = []
    prepare = writer._prepare
    monkeypatch.setattr(writer, "_prepare", lambda actions: (prepared.extend(actions), prepare(actions)))
    async with running(tmp_path / "engine.db", build) as lab:
        for _ in range(3):
            await lab.send("plain")
        runs = await lab.runs_of("rec-plain")
    assert [run.status for run in runs] == ["Completed"] * 3
    assert bool(prepared) == prepares


@pytest.mark.parametrize("worth_s", [-1.0, 10.0])
async def test_a_sender_who_gives_up_takes_nothing_along(
    tmp_path: Path, build: Any, done: list[str], monkeypatch: pytest.MonkeyPatch, worth_s: float
) -> None:
    """The event is queued already: its run goes on, after the claim is on disk, and uses up no attempt."""
    async with running(tmp_path / "engine.db", build) as lab:
        monkeypatch.setattr(writer, "_WORTH_PREPARING_S", worth_s)
        async with busy(lab):
            sending = asyncio.create_task(lab.engine.send([{"name": "plain"}]))
            await asyncio.sleep(0)
            sending.cancel()
            await others()
            assert done == [] and sending.cancelled()
        await lab.engine.idle()
        (run,) = await lab.runs_of("rec-plain")
    assert (run.status, done) == ("Completed", ["plain"])


async def test_a_sender_who_gives_up_while_the_call_is_prepared_does_not_fail_it(
    tmp_path: Path, build: Any, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path / "engine.db", build) as lab:
        disk = SlowDisk(monkeypatch)
        sending = await disk.sending(lab)
        sending.cancel()
        await others()
        assert done == []
        disk.go_on()
        await lab.engine.idle()
        (run,) = await lab.runs_of("rec-plain")
        trace = await lab.engine.run(run.id)
    assert (run.status, done, [step.failures for step in trace.steps]) == ("Completed", ["plain"], [])


async def test_after_a_commit_that_failed_the_calls_of_its_neighbours_are_not_made_either(
    tmp_path: Path, build: Any, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group fails as a whole; alone one fails again, and the other is written."""
    commits = iter(["fails", "fails"])
    in_loop = Writer._in_loop

    def failing(this: Writer, act: Any, items: list[Any]) -> None:
        in_loop(this, act, items)
        if act is writer._prepare and items and next(commits, "") == "fails":
            raise sqlite3.OperationalError("database or disk is full")

    async with running(tmp_path / "engine.db", build) as lab:
        monkeypatch.setattr(writer, "_WORTH_PREPARING_S", -1)
        monkeypatch.setattr(Writer, "_in_loop", failing)
        async with busy(lab):
            sending = [asyncio.create_task(lab.engine.send([{"name": "plain"}])) for _ in range(2)]
            await asyncio.sleep(0)
        first, second = await asyncio.gather(*sending, return_exceptions=True)
        await lab.engine.idle()
        assert isinstance(first, StoreFailed) and isinstance(second, list)
        assert (done, lab.engine.healthy) == ([], False)


@pytest.fixture
def sleeps(done: list[str]) -> Any:
    def functions(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="sleeper", trigger=inngest.TriggerEvent(event="sleep"), retries=0)
        async def sleeper(ctx: inngest.Context) -> None:
            await ctx.step.sleep("nap", timedelta(minutes=1))
            done.append("woke")

        return [sleeper]

    return functions


async def test_a_call_that_comes_due_during_a_calm_stop_was_not_interrupted(
    tmp_path: Path, sleeps: Any, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path / "engine.db", sleeps)
    await lab.start()
    await lab.send("sleep")
    monkeypatch.setattr(writer, "_WORTH_PREPARING_S", 10.0)
    async with busy(lab):
        lab.clock.advance(61)
        await others()
        stopping = asyncio.create_task(lab.engine.stop(grace_s=0))
        await others()
    await stopping
    with contextlib.closing(sqlite3.connect(tmp_path / "engine.db")) as file:
        assert file.execute("SELECT claimed, interruptions FROM jobs").fetchall() == [(0, 0)]
    assert done == []


async def test_a_claim_that_failed_leaves_a_run_that_slept_as_it_was(
    tmp_path: Path, sleeps: Any, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memos are in the file alone: one fewer than memory counts, which is no failure of the run."""
    async with running(tmp_path / "engine.db", sleeps) as lab:
        event_id = await lab.send("sleep")
        disk = SlowDisk(monkeypatch)
        lab.clock.advance(61)
        await disk.stopped()
        disk.go_on(fails=True)
        await lab.engine.idle()
        assert not lab.engine.healthy
    monkeypatch.undo()
    async with running(tmp_path / "engine.db", sleeps) as again:
        await again.pass_time(62)
        run = await again.run_of(event_id)
    assert (run.run.status, done) == ("Completed", ["woke"])
