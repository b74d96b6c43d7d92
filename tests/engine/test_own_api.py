"""Our own routes, bulk cancellation, and what the engine tells about events, functions and changes."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import pytest

from app.engine.errors import StoreFailed, UnknownEvent
from app.engine.feed import Feed, RunChange
from app.engine.model import Event, Run
from tests.engine.lab import Lab
from tests.engine.workshop import until


async def _get(lab: Lab, path: str, **query: str) -> Any:
    async with lab.http() as client:
        answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_runs_are_filtered_and_paged(lab: Lab) -> None:
    await lab.send("rec/two-steps", {"sessionKey": "tele:42_%", "text": 'say "hi" — é'})
    later = lab.clock.now() + timedelta(seconds=5)
    lab.clock.advance(10)
    await lab.send("rec/no-steps", {"sessionKey": "tele:423"})
    await lab.send("rec/fn-fail")

    async def functions(**query: str) -> list[str]:
        return [run["function"] for run in (await _get(lab, "/v1/runs", **query))["data"]]

    assert await functions(status="Failed") == ["rec-fn-fail"]
    assert await functions(function="rec-two-steps") == ["rec-two-steps"]
    assert await functions(text="tele:42_%", status="Completed", function="rec-two-steps") == ["rec-two-steps"]
    assert "rec-no-steps" not in await functions(text="42_"), "its signs are no wildcards"
    assert await functions(text='SAY "hi" — é', function="rec-two-steps") == ["rec-two-steps"]
    assert "rec-two-steps" not in await functions(since=later.isoformat())
    assert "rec-no-steps" not in await functions(until=later.isoformat())
    everything = (await _get(lab, "/v1/runs"))["data"]
    first = await _get(lab, "/v1/runs", limit="2")
    second = await _get(lab, "/v1/runs", limit="2", before=first["metadata"]["before"])
    assert [run["id"] for run in first["data"] + second["data"]] == [run["id"] for run in everything[:4]]


async def test_the_trace_of_a_run(lab: Lab) -> None:
    run = (await lab.run_of(await lab.send("rec/step-retry"))).run
    await lab.pass_time(80, step_s=10)

    trace = (await _get(lab, f"/v1/runs/{run.id}/trace"))["data"]
    assert trace["run"]["status"] == "Completed"
    assert trace["event"]["name"] == "rec/step-retry"
    (step,) = trace["steps"]
    assert (step["name"], step["output"], len(step["failures"])) == ("flaky", "fine", 2)
    assert step["failures"][0]["error"]["message"] == "boom 0"


async def test_replay_pause_and_resume_over_http(lab: Lab) -> None:
    run = (await lab.run_of(await lab.send("rec/two-steps"))).run
    async with lab.http() as client:
        replayed = (await client.post(f"/v1/runs/{run.id}/replay")).json()["data"]["run_id"]
        from_step = await client.post(f"/v1/runs/{run.id}/replay", json={"fromStep": "think"})
        wrong = await client.post(f"/v1/runs/{run.id}/replay", json={"fromStep": 7})
        unknown = await client.post(f"/v1/runs/{run.id}/replay", json={"fromStep": "nine"})
        paused = await client.post("/v1/functions/rec-two-steps/pause")
        listed = (await client.get("/v1/functions")).json()["data"]
        await client.post("/v1/functions/rec-two-steps/resume")
        missing = await client.post("/v1/functions/rec-nothing/pause")
    await lab.engine.idle()

    assert (await lab.engine.run(replayed)).run.replay_of == run.id
    assert from_step.status_code == 200
    assert [wrong.status_code, unknown.status_code, missing.status_code] == [400, 404, 404]
    assert paused.json() == {"data": {"paused": True}}
    assert [function["id"] for function in listed if function["paused"]] == ["rec-two-steps"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/runs"), ("GET", "/v1/runs/x/trace"), ("POST", "/v1/runs/x/replay"), ("GET", "/v1/functions"),
        ("GET", "/v1/events/x/trace"), ("POST", "/v1/functions/x/pause"), ("POST", "/v1/functions/x/resume"),
        ("GET", "/v1/cancellations"), ("POST", "/v1/cancellations"), ("DELETE", "/v1/cancellations/x"),
    ],
)  # fmt: skip
async def test_every_route_needs_the_signing_key(lab: Lab, method: str, path: str) -> None:
    async with lab.http("wrong") as client:
        assert (await client.request(method, path)).status_code == 401


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        ({"limit": "0"}, "a number from 1 to 1000"),
        ({"limit": "x"}, "a number from 1 to 1000"),
        ({"since": "yesterday"}, "a moment such as"),
        ({"status": "bogus"}, "no status 'bogus': accepted are Scheduled, Running, Completed, Failed, Cancelled."),
        ({"status": ""}, "no status ''"),
    ],
)
async def test_questions_that_make_no_sense(lab: Lab, query: dict[str, str], accepted: str) -> None:
    async with lab.http() as client:
        answer = await client.get("/v1/runs", params=query)

    assert answer.status_code == 400
    assert accepted in answer.json()["error"]


async def test_a_function_that_is_not_there_is_named(lab: Lab) -> None:
    async with lab.http() as client:
        short = await client.get("/v1/runs?function=no-steps")
        wrong = await client.get("/v1/runs?function=rec-nothing")

    assert short.status_code == wrong.status_code == 404
    assert short.json()["error"] == "There is no function 'no-steps'. Did you mean 'rec-no-steps'?"
    assert wrong.json()["error"].startswith("There is no function 'rec-nothing'. A full id is needed")


async def test_bulk_cancellation(lab: Lab) -> None:
    for number in range(3):
        await lab.send("rec/cancel-me", {"id": number})
        lab.clock.advance(10)
    runs = await lab.runs_of("rec-cancel-me")
    body = {
        "app_id": "rec", "function_id": "cancel-me", "started_after": runs[1].created_at.isoformat(),
        "started_before": lab.clock.now().isoformat(), "if": "event.data.id < 2",
    }  # fmt: skip
    async with lab.http() as client:
        made = await client.post("/v1/cancellations", json=body)
        listed = (await client.get("/v1/cancellations")).json()["data"]
        gone = await client.delete(f"/v1/cancellations/{made.json()['data']['id']}")
        again = await client.delete(f"/v1/cancellations/{made.json()['data']['id']}")

    assert made.status_code == 200
    assert listed == [made.json()["data"]]
    assert (listed[0]["function_id"], listed[0]["if"]) == ("cancel-me", "event.data.id < 2")
    assert [gone.status_code, again.status_code] == [200, 404]
    ends = await lab.runs_of("rec-cancel-me")
    assert [run.status for run in ends] == ["Running", "Cancelled", "Running"]
    assert ends[1].reason == "A bulk cancellation covers it."
    await lab.engine.idle()
    assert len(lab.calls_of("rec-lifecycle")) == 1, "told like any cancellation"


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"app_id": None}, 400, "app_id is required"),
        ({"started_before": None}, 400, "started_before is required"),
        ({"started_before": "2999-01-01T00:00:00Z"}, 400, "must be in the past"),
        ({"started_after": "2026-01-02T00:00:00Z"}, 400, "must be before"),
        ({"function_id": "nothing"}, 404, "function not found"),
        ({"if": "event.data.("}, 400, "is not accepted"),
    ],
)
async def test_bulk_cancellations_that_make_no_sense(lab: Lab, change: Any, status: int, reason: str) -> None:
    body = {"app_id": "rec", "function_id": "cancel-me", "started_before": "2026-01-01T00:00:00Z", **change}
    async with lab.http() as client:
        answer = await client.post("/v1/cancellations", json=body)

    assert answer.status_code == status
    assert reason in answer.json()["error"]


async def test_events_and_what_they_started(lab: Lab) -> None:
    event_id = await lab.send("rec/two-steps", {"a": 1}, id="mine")
    await lab.send("rec/two-steps", {"a": 2}, id="mine")
    await lab.send("rec/nobody")

    trace = await lab.engine.event(event_id)
    assert (trace.event.event_id, trace.event.data, trace.event.source) == ("mine", {"a": 1}, "sent")
    assert [run.function for run in trace.runs] == ["rec-two-steps"]
    sources = {(event.name, event.source) for event in await lab.engine.events()}
    assert {("rec/two-steps", "repeated"), ("inngest/function.finished", "engine")} <= sources
    named = await lab.engine.events(name="rec/two-steps")
    assert len(named) == 2
    assert await lab.engine.events(name="rec/two-steps", before=named[0].id) == named[1:]
    with pytest.raises(UnknownEvent):
        await lab.engine.event("none")
    assert (await _get(lab, f"/v1/events/{event_id}/trace"))["data"]["event"]["data"] == {"a": 1}


async def test_functions_are_listed(lab: Lab) -> None:
    functions = {function.id: function for function in await lab.engine.functions()}

    assert functions["rec-conc"].config["concurrency"] == [{"key": "event.data.k", "limit": 1}]
    assert functions["rec-cron"].triggers == ({"cron": "* * * * *"},)
    assert (functions["rec-cron"].app, functions["rec-cron"].paused) == ("rec", False)


async def test_changes_are_told_once_they_are_on_disk(lab: Lab) -> None:
    seen: list[RunChange] = []

    async def watch() -> None:
        async for change in lab.engine.changes():
            with contextlib.suppress(StoreFailed):  # the engine may stop while the last one is looked up
                assert (await lab.engine.run(change.run_id)).run.function == change.function
            seen.append(change)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await lab.send("rec/no-steps")
    await lab.send("rec/cancel-me", {"id": 1})
    await lab.engine.cancel((await lab.runs_of("rec-cancel-me"))[0].id)
    await until(lambda: any(change.status == "Cancelled" for change in seen))
    await lab.engine.stop()
    await asyncio.wait_for(watching, 5)

    last = {change.function: change.status for change in seen}
    assert last["rec-no-steps"] == "Completed"
    assert last["rec-cancel-me"] == "Cancelled"


async def test_who_does_not_keep_up_misses_changes() -> None:
    feed = Feed()
    changes = feed.changes()
    first = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    event = Event("e", {"id": "e", "name": "x", "ts": 0}, 0)
    for number in range(1_500):
        feed.publish([Run(f"run{number}", "f", event, 0, "Running")])
    feed.publish([Run("run1499", "f", event, 0, "Completed")])
    feed.close()
    oldest = await first
    rest = [change async for change in changes]

    assert oldest.run_id == "run500", "the oldest are dropped"
    assert len(rest) == 999
    assert rest[-1] == RunChange("run1499", "f", "Completed"), "of one run only the last is told"
