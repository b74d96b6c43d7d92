"""The engine's own events: finished, failed, cancelled; and that they never start an endless chain."""

from pathlib import Path
from typing import Any

import inngest

from tests.engine import recorded
from tests.engine.lab import Lab, running

_CALLS = reversed(recorded.calls("lifecycle-events"))
#: The first of each function.
_RECORDED = {call["body"]["event"]["data"]["function_id"]: call for call in _CALLS}


async def provoke(lab: Lab) -> None:
    """What the recording was made from: ends of every kind."""
    for name, data in (("two-steps", {}), ("fn-fail", {}), ("non-retriable", {}), ("caller", {})):
        await lab.send(f"rec/{name}", data)
    await lab.send("rec/cancel-me", {"id": 1})
    await lab.send("rec/cancel", {"id": 1})
    await lab.send("rec/single-cancel", {"m": "first", "sessionKey": "s1"})
    await lab.send("rec/single-cancel", {"m": "second", "sessionKey": "s1"})


async def test_events_are_as_recorded(lab: Lab) -> None:
    await provoke(lab)

    seen = {call.body["event"]["data"]["function_id"]: call.body for call in lab.calls_of("rec-lifecycle")}
    expected = {slug: call["body"] for slug, call in _RECORDED.items() if slug != "rec-finish-timeout"}
    assert {slug: recorded.Plain().value(body["event"]) for slug, body in seen.items()} == {
        slug: recorded.Plain().value(body["event"]) for slug, body in expected.items()
    }


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
