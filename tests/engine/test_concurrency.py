"""Concurrency limits: how many steps are in execution, who is next, and what takes no slot."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest

from tests.engine import recorded
from tests.engine.lab import Lab, running
from tests.engine.workshop import Gated, until


async def _send(lab: Lab, name: str, *numbers: Any, **data: Any) -> None:
    await lab.engine.send([{"name": name, "data": {"n": number, **data}} for number in numbers])


async def test_a_limit_of_the_function(tmp_path: Path) -> None:
    gated = Gated(concurrency=[inngest.Concurrency(limit=2)])
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await _send(lab, "gated", 1, 2, 3, 4)
        await until(lambda: len(gated.inside) == 2)
        assert [run.status for run in await lab.runs_of("rec-gated")] == ["Running"] * 2 + ["Scheduled"] * 2
        gated.let_go(1)
        await until(lambda: gated.inside == [2, 3])
        gated.let_go(2, 3, 4)
        await lab.engine.idle()

        assert gated.order == [1, 2, 3, 4], "first come, first served"
        assert gated.most == 2
        assert {run.status for run in await lab.runs_of("rec-gated")} == {"Completed"}


async def test_a_limit_per_key(tmp_path: Path) -> None:
    gated = Gated(concurrency=[inngest.Concurrency(limit=1, key="event.data.k")])
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await _send(lab, "gated", 1, 2, k="a")
        await _send(lab, "gated", 3, k="b")
        await until(lambda: gated.inside == [1, 3])
        gated.let_go(1, 2, 3)
        await lab.engine.idle()

        assert gated.order == [1, 3, 2]


async def test_scopes_wider_than_a_function(tmp_path: Path) -> None:
    gated = Gated("one", "two", concurrency=[inngest.Concurrency(limit=1, key="'all'", scope="account")])
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await _send(lab, "one", 1)
        await _send(lab, "two", 2)
        await until(lambda: gated.inside == [1])
        gated.let_go(1)
        await until(lambda: gated.inside == [2])
        gated.let_go(2)
        await lab.engine.idle()

        assert gated.most == 1


async def test_a_call_needs_a_slot_of_every_limit(tmp_path: Path) -> None:
    limits = [inngest.Concurrency(limit=2), inngest.Concurrency(limit=1, key="event.data.k")]
    gated = Gated(concurrency=limits)
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await _send(lab, "gated", 1, 2, k="a")
        await _send(lab, "gated", 3, k="b")
        await _send(lab, "gated", 4, k="c")
        await until(lambda: gated.inside == [1, 3])
        gated.let_go(3)
        await until(lambda: gated.inside == [1, 4])
        gated.let_go(1, 2, 4)
        await lab.engine.idle()

        assert gated.most == 2
        assert gated.order == [1, 3, 4, 2]


async def test_the_older_run_goes_on_first(tmp_path: Path) -> None:
    order: list[str] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="two", trigger=inngest.TriggerEvent(event="go"), concurrency=[inngest.Concurrency(limit=1)]
        )
        async def two(ctx: inngest.Context) -> None:
            for step in ("a", "b"):
                await ctx.step.run(step, lambda step=step: _note(f"{ctx.event.data['n']}{step}"))

        async def _note(line: str) -> None:
            order.append(line)

        return [two]

    async with running(tmp_path / "engine.db", build) as lab:
        await _send(lab, "go", 1, 2)
        await lab.engine.idle()

    assert order == ["1a", "1b", "2a", "2b"], "as recorded"


async def test_sleeping_and_waiting_take_no_slot(tmp_path: Path) -> None:
    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="naps", trigger=inngest.TriggerEvent(event="go"), concurrency=[inngest.Concurrency(limit=1)]
        )
        async def naps(ctx: inngest.Context) -> Any:
            await ctx.step.sleep("nap", timedelta(seconds=60))
            await ctx.step.wait_for_event("w", event="never", timeout=timedelta(seconds=60))
            return ctx.event.data["n"]

        return [naps]

    async with running(tmp_path / "engine.db", build) as lab:
        await _send(lab, "go", *range(5))
        await lab.engine.idle()
        assert {run.status for run in await lab.runs_of("rec-naps")} == {"Running"}, "all sleep at the same time"
        await lab.pass_time(125, step_s=5)

        assert sorted(run.output for run in await lab.runs_of("rec-naps")) == list(range(5))


async def test_a_cancelled_run_keeps_its_slot_until_its_step_is_over(tmp_path: Path) -> None:
    gated = Gated(concurrency=[inngest.Concurrency(limit=1)])
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await _send(lab, "gated", 1, 2, 3)
        await until(lambda: gated.inside == [1])
        first, second, _ = await lab.runs_of("rec-gated")
        await lab.engine.cancel(first.id)
        await lab.engine.cancel(second.id)
        assert gated.inside == [1]
        gated.let_go(1, 3)
        await lab.engine.idle()

        assert gated.order == [1, 3], "the cancelled one that waited never begins"
        ends = [run.status for run in await lab.runs_of("rec-gated")]
        assert ends == ["Cancelled", "Cancelled", "Completed"]


async def test_the_queue_survives_a_restart(tmp_path: Path) -> None:
    gated = Gated(concurrency=[inngest.Concurrency(limit=1)])
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await _send(lab, "gated", 1, 2, 3)
        await until(lambda: gated.inside == [1])
    gated.inside.clear()
    gated.order.clear()
    async with running(tmp_path / "engine.db", gated.build) as lab:
        await until(lambda: gated.inside == [1])
        gated.let_go(1, 2, 3)
        await lab.engine.idle()

        assert gated.order == [1, 2, 3]
        assert gated.most == 1
        assert {run.status for run in await lab.runs_of("rec-gated")} == {"Completed"}


async def test_a_failed_attempt_gives_its_slot_back_while_it_waits(tmp_path: Path) -> None:
    tries: list[Any] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="flaky", trigger=inngest.TriggerEvent(event="go"), concurrency=[inngest.Concurrency(limit=1)]
        )
        async def flaky(ctx: inngest.Context) -> Any:
            tries.append((ctx.event.data["n"], ctx.attempt))
            if ctx.event.data["n"] == 1 and ctx.attempt == 0:
                raise RuntimeError("once")
            return "fine"

        return [flaky]

    async with running(tmp_path / "engine.db", build) as lab:
        await _send(lab, "go", 1, 2)
        await lab.engine.idle()
        assert tries == [(1, 0), (2, 0)]
        await lab.pass_time(60, step_s=10)

        assert tries == [(1, 0), (2, 0), (1, 1)]


async def test_as_recorded(lab: Lab) -> None:
    """Of four events, three of one key: never two of a key at once, every run by the same two calls."""
    for send in recorded.sends("conc"):
        await lab.engine.send([send["body"]])
    await lab.engine.idle()

    calls = lab.calls_of("rec-conc")
    assert len(calls) == len(recorded.calls("conc"))
    of_one_run = [call for call in calls if call.body["ctx"]["run_id"] == calls[0].body["ctx"]["run_id"]]
    for call, real in zip(of_one_run, recorded.calls("conc")[:2], strict=True):
        assert call.query == real["query"]
        assert call.body.keys() == real["body"].keys()
        assert call.status == real["status"]
    by_key = [call.body["event"]["id"] for call in calls if call.body["event"]["data"]["k"] == "a"]
    assert by_key[::2] == by_key[1::2], "a run is over before the next one of its key begins"
