"""Functions that an app drops or changes, and several apps on one engine."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import inngest

from tests.engine.lab import Lab, running
from tests.engine.test_http_api import _registration
from tests.engine.workshop import GO, Noted


def sleeper(fn_id: str, **options: Any) -> Any:
    def make(client: inngest.Inngest) -> inngest.Function[Any]:
        @client.create_function(fn_id=fn_id, trigger=options.pop("trigger", GO), **options)
        async def sleeps(ctx: inngest.Context) -> str:
            await ctx.step.sleep("nap", timedelta(seconds=60))
            return fn_id

        return sleeps

    return make


def told(client: inngest.Inngest) -> inngest.Function[Any]:
    @client.create_function(fn_id="told", trigger=inngest.TriggerEvent(event="inngest/function.cancelled"))
    async def told(ctx: inngest.Context) -> Any:
        return ctx.event.data["function_id"]

    return told


async def test_runs_of_a_function_that_is_gone_end_cancelled_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, lambda client: [sleeper("gone")(client), told(client)]) as lab:
        await lab.send("go")
    async with running(path, lambda client: [told(client)], clock=lab.clock) as lab:
        await lab.engine.idle()
        (run,) = await lab.runs_of("rec-gone")
        assert (run.status, run.reason) == ("Cancelled", "App rec does not have the function any more.")
        assert [row.output for row in await lab.runs_of("rec-told")] == ["rec-gone"]
        await lab.pass_time(120, step_s=30)
        assert lab.calls_of("rec-gone") == []
        assert [function.id for function in await lab.engine.functions()] == ["rec-told"]


async def test_what_waits_to_start_a_function_that_is_gone_is_dropped(tmp_path: Path) -> None:
    path, noted = tmp_path / "engine.db", Noted(debounce=inngest.Debounce(period=10_000))
    async with running(path, lambda client: [*noted.build(client), told(client)]) as lab:
        await lab.send("go", {"n": 1})
    async with running(path, lambda client: [told(client)], clock=lab.clock) as lab:
        await lab.pass_time(30)
        assert await lab.engine.store.rows("SELECT * FROM held") == []
    async with running(path, lambda client: [*noted.build(client), told(client)], clock=lab.clock) as lab:
        await lab.pass_time(30)
        assert noted.numbers == []


async def test_a_changed_function_goes_on_with_its_new_configuration(tmp_path: Path) -> None:
    path = tmp_path / "engine.db"
    async with running(path, lambda client: [sleeper("f")(client)]) as lab:
        event_id = await lab.send("go")
    changed = sleeper("f", trigger=inngest.TriggerEvent(event="other"))
    async with running(path, lambda client: [changed(client)], clock=lab.clock) as lab:
        await lab.send("go")
        await lab.pass_time(70, step_s=10)
        assert (await lab.run_of(event_id)).run.output == "f", "its open runs go on"
        assert len(await lab.runs_of("rec-f")) == 1, "the old trigger starts nothing"
        await lab.send("other")
        assert len(await lab.runs_of("rec-f")) == 2


async def test_several_apps_share_an_engine(lab: Lab) -> None:
    text = json.dumps({**_registration(), "appname": "other"}).replace("rec-", "other-")
    async with lab.http() as client:
        assert (await client.post("/fn/register", content=text)).status_code == 200
        fewer = json.loads(text)
        fewer["functions"] = fewer["functions"][:1]
        assert (await client.post("/fn/register", json=fewer)).status_code == 200
    by_app: dict[str, set[str]] = {}
    for function in await lab.engine.functions():
        by_app.setdefault(function.app, set()).add(function.id)

    assert by_app["other"] == {"other-no-steps"}
    assert "rec-two-steps" in by_app["rec"], "what one app drops is not another's"
    event_id = await lab.send("rec/no-steps")
    started = {run.function for run in await lab.engine.runs(event_id=event_id)}
    assert started == {"rec-no-steps", "other-no-steps"}
