"""Starting, stopping, one owner per file, deadlines, broken disks, retention."""

import asyncio
import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.clock import ManualClock
from app.engine.engine import Engine
from app.engine.errors import EngineLocked, EngineStopped, StoreFailed, SyncFailed
from app.engine.signing import new_signing_key
from app.engine.store import Store
from tests.engine.lab import EVENT_KEY, SIGNING_KEY, Lab, private_app, running
from tests.engine.sample_functions import build

_GO = inngest.TriggerEvent(event="go")


class Slow:
    """One function whose step waits to be let go."""

    def __init__(self) -> None:
        self.entered, self.leave = asyncio.Event(), asyncio.Event()
        self.attempts: list[int] = []
        self.lab: Lab | None = None

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="slow", trigger=_GO, retries=1)
        async def slow(ctx: inngest.Context) -> str:
            async def body() -> str:
                self.attempts.append(ctx.attempt)
                self.entered.set()
                await self.leave.wait()
                return "done"

            return await ctx.step.run("s", body)

        return [slow]


async def test_a_second_engine_in_this_process_is_refused(lab: Lab, tmp_path: Path) -> None:
    second = Engine(tmp_path / "engine.db", lab.clock, EVENT_KEY)

    with pytest.raises(EngineLocked, match=f"already open in another process .pid {os.getpid()}."):
        await second.start()


async def test_a_second_process_gets_a_sentence(lab: Lab, tmp_path: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from app.clock import SystemClock\n"
        "from app.engine.engine import Engine; from app.engine.errors import EngineLocked\n"
        "try: asyncio.run(Engine(Path(sys.argv[1]), SystemClock(), 'key').start())\n"
        "except EngineLocked as error: print(error)\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script, str(tmp_path / "engine.db")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert "is already open in another process" in done.stdout
    assert "give this one a file of its own" in done.stdout


async def test_start_stop_start(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "engine.db", build)
    for _ in range(2):
        await lab.start()
        await lab.send("rec/no-steps")
        await lab.engine.stop()
        await lab.engine.stop()
    await lab.start()
    assert len(await lab.runs_of("rec-no-steps")) == 2
    await lab.engine.stop()


async def test_a_stopped_engine_says_so(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "engine.db", build)
    with pytest.raises(EngineStopped):
        await lab.engine.send([{"name": "x"}])
    await lab.start()
    await lab.engine.stop()
    with pytest.raises(EngineStopped):
        await lab.engine.runs()


async def test_calls_in_flight_finish_within_the_grace(tmp_path: Path) -> None:
    slow = Slow()
    lab = Lab(tmp_path / "engine.db", slow.build)
    await lab.start()
    await lab.engine.send([{"name": "go"}])
    await slow.entered.wait()
    stopping = asyncio.create_task(lab.engine.stop(grace_s=10))
    await asyncio.sleep(0)
    late = await lab.engine.send([{"name": "go"}])
    slow.leave.set()
    await stopping
    assert slow.attempts == [0], "no new call begins while stopping"

    async with running(tmp_path / "engine.db", slow.build, clock=lab.clock) as again:
        await again.engine.idle()
        assert [run.status for run in await again.runs_of("rec-slow")] == ["Completed", "Completed"]
        assert (await again.run_of(late[0])).run.output == "done", "what came while stopping is not lost"
    assert slow.attempts == [0, 0]


async def test_after_the_grace_calls_are_cut_off_and_made_again(tmp_path: Path) -> None:
    slow = Slow()
    lab = Lab(tmp_path / "engine.db", slow.build)
    await lab.start()
    await lab.engine.send([{"name": "go"}])
    await slow.entered.wait()
    stopping = asyncio.create_task(lab.engine.stop(grace_s=10))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopping.done()
    lab.clock.advance(10)
    await stopping

    slow.leave.set()
    async with running(tmp_path / "engine.db", slow.build, clock=lab.clock) as again:
        await again.engine.idle()
        (run,) = await again.runs_of("rec-slow")
    assert run.status == "Completed"
    assert slow.attempts == [0, 0]


async def test_a_call_over_its_deadline_fails_and_is_tried_again(tmp_path: Path) -> None:
    slow = Slow()
    async with running(tmp_path / "engine.db", slow.build, call_deadline_s=60) as lab:
        (event_id,) = await lab.engine.send([{"name": "go"}])
        await slow.entered.wait()
        lab.clock.advance(61)
        await lab.engine.idle()
        run = await lab.run_of(event_id)
        assert run.run.status == "Running"
        assert run.failures[0].error == {"name": "CallDeadline", "message": "The call did not end within 60 s."}

        slow.leave.set()
        await lab.pass_time(30, step_s=10)
        assert (await lab.run_of(event_id)).run.status == "Completed"
    assert slow.attempts == [0, 1]


async def test_an_app_that_cancels_itself_only_fails(tmp_path: Path) -> None:
    def cancels(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="cancels", trigger=_GO, retries=0)
        async def cancels(ctx: inngest.Context) -> None:
            raise asyncio.CancelledError

        return [cancels]

    async with running(tmp_path / "engine.db", cancels) as lab:
        run = await lab.run_of(await lab.send("go"))

    assert run.run.status == "Failed"
    assert run.run.output["name"] == "CallCancelled"


async def test_calls_wait_for_their_app(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path / "engine.db", build) as lab:
        event_id = await lab.send("rec/sleepy")
        clock = lab.clock
    later = Lab(tmp_path / "engine.db", build, clock=clock)
    caplog.set_level(logging.INFO, "moab.engine")
    await later.engine.start()
    clock.advance(5)
    await later.engine.idle()
    assert "waits until the app of rec-sleepy is attached" in caplog.text

    await later.engine.attach(later.app, signing_key=later._key)
    await later.pass_time(3)
    assert (await later.run_of(event_id)).run.status == "Completed"
    await later.engine.stop()


async def test_attach_with_the_wrong_key_says_what_is_needed(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine.db", ManualClock(), EVENT_KEY)
    app, _ = private_app(build)
    await engine.start()
    with pytest.raises(SyncFailed, match="production-mode client"):
        await engine.attach(app, signing_key=new_signing_key())
    await engine.stop()


async def test_a_broken_disk_stops_all_work(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = Store.write

    def fail(self: Store, statements: Any, ahead: Any = None) -> Any:
        return write(self, [*statements, ("INSERT INTO nowhere VALUES (1)", ())], ahead)

    monkeypatch.setattr(Store, "write", fail)
    with pytest.raises(StoreFailed, match="could not be written"):
        await lab.engine.send([{"name": "rec/no-steps"}])
    await lab.engine.idle()
    monkeypatch.undo()

    assert not lab.engine.healthy
    assert "restart the service" in caplog.text
    assert lab.calls_of("rec-no-steps") == [], "nothing runs that is not on disk"
    with pytest.raises(StoreFailed):
        await lab.engine.send([{"name": "rec/no-steps"}])


async def test_one_bad_change_does_not_take_its_neighbours_along(tmp_path: Path) -> None:
    store = Store(tmp_path / "engine.db")
    await store.open(0)
    good = [("INSERT INTO event_ids VALUES ('a', 'b', 1)", ())]
    results = await asyncio.gather(
        store.write([("INSERT INTO event_ids VALUES ('c', 'd', 1)", ())]),
        store.write([("INSERT INTO nowhere VALUES (1)", ())]),
        store.write(good),
        return_exceptions=True,
    )
    rows = await store.rows("SELECT name FROM event_ids ORDER BY name")
    await store.close()

    assert [type(result) for result in results] == [type(None), StoreFailed, type(None)]
    assert [row["name"] for row in rows] == ["a", "c"]


async def test_old_runs_are_pruned_and_open_ones_kept(tmp_path: Path) -> None:
    def sleeps(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="sleeps", trigger=_GO)
        async def sleeps(ctx: inngest.Context) -> str:
            await ctx.step.sleep("long", timedelta(days=ctx.event.data["days"]))
            return "woke"

        return [sleeps]

    async with running(tmp_path / "engine.db", sleeps, retention_days=14) as lab:
        old = await lab.send("go", {"days": 1})
        kept = await lab.send("go", {"days": 60})
        await lab.send("nobody-listens")
        await lab.pass_time(86_400 * 2, step_s=43_200)
        assert (await lab.run_of(old)).run.status == "Completed"
        await lab.pass_time(86_400 * 15, step_s=43_200)

        assert await lab.engine.runs(event_id=old) == []
        assert (await lab.run_of(kept)).run.status == "Running"
        assert len(await lab.engine.store.rows("SELECT 1 FROM events")) == 1
        assert await lab.engine.store.rows("SELECT 1 FROM steps WHERE status = 'Completed'") == []
        await lab.pass_time(86_400 * 45, step_s=86_400)
        assert (await lab.run_of(kept)).run.output == "woke"


async def test_runs_can_be_paged_and_filtered(lab: Lab) -> None:
    for _ in range(5):
        await lab.send("rec/no-steps")
    await lab.send("rec/fn-fail")

    newest = await lab.engine.runs(limit=2)
    older = await lab.engine.runs(limit=100, before=newest[-1].id)
    assert len(newest) == 2
    assert all(run.id < newest[-1].id for run in older)
    assert {run.function for run in await lab.engine.runs(status="Failed")} == {"rec-fn-fail"}
    assert len(await lab.engine.runs(function="rec-no-steps")) == 5


async def test_the_idle_engine_asks_the_clock_for_nothing(tmp_path: Path) -> None:
    sleeps: list[float] = []

    class Watched(ManualClock):
        async def sleep(self, seconds: float) -> None:
            sleeps.append(seconds)
            await super().sleep(seconds)

    engine = Engine(tmp_path / "engine.db", Watched(), EVENT_KEY, SIGNING_KEY)
    await engine.start()
    for _ in range(20):
        await asyncio.sleep(0)
    await engine.stop()

    assert len(sleeps) <= 1


async def test_long_timeouts_do_not_pile_up(tmp_path: Path) -> None:
    def waits(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="waits", trigger=_GO)
        async def waits(ctx: inngest.Context) -> None:
            await ctx.step.wait_for_event("w", event="answer", timeout=timedelta(days=365))

        return [waits]

    async with running(tmp_path / "engine.db", waits) as lab:
        for _ in range(5):
            await lab.engine.send([{"name": "go"}] * 100)
            await lab.engine.idle()
            await lab.send("answer")

        assert len(await lab.engine.runs(status="Completed", limit=1000)) == 500
        assert len(lab.engine._core.scheduler) < 250


async def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "engine.db").write_text("this is no database, and long enough to be looked at" * 100)
    engine = Engine(tmp_path / "engine.db", ManualClock(), EVENT_KEY)

    with pytest.raises(StoreFailed, match=r"Cannot open .*engine\.db"):
        await engine.start()
    (tmp_path / "engine.db").unlink()
    await engine.start()
    await engine.stop()
