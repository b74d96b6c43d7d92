"""The engine's own events follow every end, and never start an endless chain. Their form: the scenarios."""

from pathlib import Path
from typing import Any

import inngest

from tests.engine.lab import running


async def test_a_failing_failure_handler_ends(tmp_path: Path) -> None:
    calls: list[str] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(fn_id="fails", trigger=inngest.TriggerEvent(event="go"), retries=0)
        async def fails(ctx: inngest.Context) -> None:
            raise RuntimeError("fatal")

        @client.create_function(
            fn_id="handler", trigger=inngest.TriggerEvent(event="inngest/function.failed"), retries=0
        )
        async def handler(ctx: inngest.Context) -> None:
            calls.append(str(ctx.event.data["function_id"]))
            raise RuntimeError("the handler fails too")

        return [fails, handler]

    async with running(tmp_path / "engine.db", build) as lab:
        await lab.send("go")

        assert calls == ["rec-fails"]


async def test_finished_follows_every_end(tmp_path: Path) -> None:
    ends: list[tuple[str, str]] = []

    def build(client: inngest.Inngest) -> list[inngest.Function[Any]]:
        @client.create_function(
            fn_id="work",
            trigger=inngest.TriggerEvent(event="go"),
            retries=0,
            cancel=[inngest.Cancel(event="stop")],
        )
        async def work(ctx: inngest.Context) -> str:
            if ctx.event.data.get("fail"):
                raise RuntimeError("fatal")
            if ctx.event.data.get("sleep"):
                await ctx.step.sleep("long", 60_000)
            return "done"

        @client.create_function(fn_id="seen", trigger=inngest.TriggerEvent(event="inngest/function.finished"))
        async def seen(ctx: inngest.Context) -> None:
            data: Any = ctx.event.data
            ends.append((data["_inngest"]["status"], str(data.get("result", data.get("error")))))

        return [work, seen]

    async with running(tmp_path / "engine.db", build) as lab:
        await lab.send("go")
        await lab.send("go", {"fail": True})
        await lab.send("go", {"sleep": True})
        await lab.send("stop")

    assert [status for status, _ in ends] == ["Completed", "Failed", "Cancelled"]
    assert ends[0][1] == "done"
    assert "fatal" in ends[1][1]
