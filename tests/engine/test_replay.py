"""Replay: run again from the start, or from a step with the memos before it."""

from collections import Counter
from pathlib import Path
from typing import Any

import inngest
import pytest

from app.engine.errors import UnknownFunction, UnknownRun, UnknownStep
from tests.engine.lab import Lab, running
from tests.engine.sample_functions import build
from tests.engine.workshop import GO


class Counting:
    """Three steps, then two beside one another; each says how often it ran."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()

    def build(self, client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="counts", trigger=GO, singleton=inngest.Singleton(mode="cancel"), retries=0)
        async def counts(ctx: inngest.Context) -> Any:
            async def body(name: str) -> str:
                self.ran[name] += 1
                if ctx.event.data.get("fails") == name and self.ran[name] == 1:
                    raise RuntimeError(name)
                return f"{name}{self.ran[name]}"

            one, two = await ctx.step.run("one", body, "one"), await ctx.step.run("two", body, "two")
            rest = await ctx.group.parallel(
                (lambda: ctx.step.run("a", body, "a"), lambda: ctx.step.run("b", body, "b"))
            )
            return [one, two, *rest]

        return [counts]


async def test_from_the_start(tmp_path: Path) -> None:
    counting = Counting()
    async with running(tmp_path / "engine.db", counting.build) as lab:
        first = (await lab.run_of(await lab.send("go", {"x": 1}))).run
        again = await lab.engine.replay(first.id)
        await lab.engine.idle()

        replayed = await lab.engine.run(again)
        assert replayed.run.replay_of == first.id
        assert replayed.run.output == ["one2", "two2", "a2", "b2"]
        assert replayed.event == (await lab.engine.run(first.id)).event
        assert (await lab.engine.run(first.id)).run.output == ["one1", "two1", "a1", "b1"], "the old one stays"


@pytest.mark.parametrize("by_name", [True, False])
async def test_from_a_step_with_the_memos_before_it(tmp_path: Path, by_name: bool) -> None:
    counting = Counting()
    async with running(tmp_path / "engine.db", counting.build) as lab:
        first = await lab.run_of(await lab.send("go"))
        step = next(step for step in first.steps if step.name == "two")
        again = await lab.engine.replay(first.run.id, "two" if by_name else step.id)
        await lab.engine.idle()

        replayed = await lab.engine.run(again)
        assert replayed.run.output == ["one1", "two2", "a2", "b2"]
        assert [step.name for step in replayed.steps] == ["one", "two", "a", "b"]
        call = next(call for call in lab.calls_of("rec-counts") if call.body["ctx"]["run_id"] == again)
        assert call.body["ctx"]["stack"] == {"current": 1, "stack": [first.steps[0].id]}


async def test_a_failed_run_from_the_step_that_failed(tmp_path: Path) -> None:
    counting = Counting()
    async with running(tmp_path / "engine.db", counting.build) as lab:
        failed = await lab.run_of(await lab.send("go", {"fails": "two"}))
        assert failed.run.status == "Failed"
        again = await lab.engine.replay(failed.run.id, "two")
        await lab.engine.idle()

        assert (await lab.engine.run(again)).run.output == ["one1", "two2", "a1", "b1"]


async def test_a_replay_is_no_singleton_and_survives_a_restart(tmp_path: Path) -> None:
    counting, path = Counting(), tmp_path / "engine.db"
    async with running(path, counting.build) as lab:
        first = (await lab.run_of(await lab.send("go"))).run
        await lab.engine.pause("rec-counts")
        again = await lab.engine.replay(first.id, "a")
        await lab.engine.idle()
        assert (await lab.engine.run(again)).run.status == "Scheduled", "nothing starts of a paused function"
    async with running(path, counting.build, clock=lab.clock) as lab:
        await lab.engine.resume("rec-counts")
        await lab.engine.idle()
        replayed = (await lab.engine.run(again)).run
        assert (replayed.output, replayed.replay_of) == (["one1", "two1", "a2", "b2"], first.id)
        assert (await lab.engine.run(first.id)).run.status == "Completed"


async def test_a_batch_is_replayed_as_a_batch(lab: Lab) -> None:
    for number in range(3):
        await lab.send("rec/batched", {"i": number})
    (first,) = await lab.runs_of("rec-batched")
    again = await lab.engine.replay(first.id)
    await lab.engine.idle()

    assert (await lab.engine.run(again)).run.output == [{"i": 0}, {"i": 1}, {"i": 2}]


async def test_what_cannot_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, build) as lab:
        run = (await lab.run_of(await lab.send("rec/two-steps"))).run
        with pytest.raises(UnknownRun):
            await lab.engine.replay("01ARZ3NDEKTSV4RRFFQ69G5FAV")
        with pytest.raises(UnknownStep, match="no step 'nine'"):
            await lab.engine.replay(run.id, "nine")
    async with running(path, lambda client: build(client)[:1], clock=lab.clock) as lab:
        with pytest.raises(UnknownFunction, match="rec-two-steps"):
            await lab.engine.replay(run.id)
