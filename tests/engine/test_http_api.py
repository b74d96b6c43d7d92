"""The public HTTP API: keys, events in, registrations, runs out."""

from pathlib import Path

import httpx
import pytest

from tests.engine import recorded
from tests.engine.lab import EVENT_KEY, SIGNING_KEY, Lab, running
from tests.engine.sample_functions import build


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"name": "x", "data": {"v": float("nan")}}, "no JSON number"),
        ({"name": "x", "data": {"v": [float("inf")]}}, "no JSON number"),
        ({"name": "x\ud800"}, "lone surrogate"),
        ({"name": "x" * 300}, "300 letters"),
        ({"name": "x", "id": 7}, "event id must be a text"),
        ({"name": "x", "ts": True}, "ts must be"),
        ({"name": "x", "ts": -5}, "ts must be"),
        ({"name": "inngest/function.failed"}, "only the engine itself sends"),
        ({"name": "x", "data": {"v": "y" * 262_144}}, "at most 262144"),
    ],
)
async def test_what_the_wire_cannot_carry_is_refused(lab: Lab, event: dict[str, object], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        await lab.engine.send([{"name": "rec/no-steps", "data": {}}, event])

    assert await lab.engine.runs() == [], "all or none"


async def test_deep_nesting_is_refused(lab: Lab) -> None:
    async with lab.http(None) as client:
        answer = await client.post(f"/e/{EVENT_KEY}", content='{"name":"x","data":' + '{"a":' * 50_000)

    assert answer.status_code == 400


async def test_half_a_surrogate_pair_is_replaced(lab: Lab) -> None:
    data = {"half": "\ud83d!", "pair": "\U0001f600", "escaped": "\\ud83d", "back": "\\\ud83d"}
    run = await lab.run_of(await lab.send("rec/no-steps", data))

    assert run.run.status == "Completed"
    assert run.event["data"] == {**data, "half": "\ufffd!", "back": "\\\ufffd"}


async def test_events_need_the_event_key(lab: Lab) -> None:
    async with lab.http(None) as client:
        refused = await client.post("/e/wrong-key", json={"name": "rec/no-steps"})
        taken = await client.post(f"/e/{EVENT_KEY}", json={"name": "rec/no-steps"})

    assert refused.status_code == 401
    assert refused.json()["ids"] == [""]
    assert taken.status_code == 200
    await lab.engine.idle()
    assert len(await lab.engine.runs()) == 1


async def test_a_body_over_the_bound_is_refused(lab: Lab) -> None:
    async with lab.http(None) as client:
        answer = await client.post(f"/e/{EVENT_KEY}", content=b"x" * 8_100_000)

    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/dev"),
        ("GET", "/v1/events"),
        ("GET", "/v1/events/x"),
        ("GET", "/v1/events/x/runs"),
        ("GET", "/v1/runs/x"),
        ("DELETE", "/v1/runs/x"),
        ("GET", "/v0/runs/x/actions"),
        ("GET", "/v0/runs/x/batch"),
    ],
)
async def test_everything_else_needs_the_signing_key(lab: Lab, method: str, path: str) -> None:
    for key in (None, EVENT_KEY, "wrong"):
        async with lab.http(key) as client:
            assert (await client.request(method, path)).status_code == 401


async def test_without_a_signing_key_nobody_may_read_or_register(tmp_path: Path) -> None:
    async with running(tmp_path / "engine.db", build) as lab:
        lab.engine._signing_key = None
        closed = type(lab)(tmp_path / "other.db", build).engine
        closed._signing_key = None
        async with lab.http("") as client:
            answer = await client.post("/fn/register", json=_registration(), headers={"authorization": "Bearer "})

    assert answer.status_code == 401


async def test_health_is_open(lab: Lab) -> None:
    async with lab.http(None) as client:
        answer = await client.get("/health")
        expected = next(line for line in recorded.lines("bad-input") if line.get("path") == "/health")
        assert answer.json() == expected["resp"]

        await lab.engine.stop()
        assert (await client.get("/health")).status_code == 503
        assert (await client.post(f"/e/{EVENT_KEY}", json={"name": "x"})).status_code == 503


async def test_what_is_no_route_is_named(lab: Lab) -> None:
    async with lab.http() as client:
        answer = await client.get("/v1/nothing")
        root = await client.get("/")
        wrong = await client.post("/v1/events")

    assert answer.status_code == root.status_code == 404
    assert answer.json()["error"] == "There is no route /v1/nothing for GET."
    assert (wrong.status_code, "GET" in wrong.headers["allow"]) == (405, True)
    assert wrong.json()["error"] == "The route /v1/events is not for POST."


async def test_a_run_that_is_not_there_cannot_be_cancelled(lab: Lab) -> None:
    async with lab.http() as client:
        unknown = await client.delete("/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV")

    assert unknown.status_code == 404


async def test_events_are_listed_without_the_engines_own(lab: Lab) -> None:
    await lab.send("rec/fn-fail")
    await lab.send("rec/cancel-me", {"id": 99})
    async with lab.http() as client:
        listed = (await client.get("/v1/events?limit=3")).json()["data"]
        one = (await client.get(f"/v1/events/{listed[0]['internal_id']}")).json()["data"]
        missing = await client.get("/v1/events/none")

    shape = next(line for line in recorded.lines("bad-input") if line.get("path") == "/v1/events?limit=3")
    assert [event["name"] for event in listed] == ["rec/cancel-me", "rec/fn-fail"]
    assert listed[0].keys() == shape["resp"]["data"][0].keys()
    assert one == listed[0]
    assert missing.status_code == 404


async def test_events_are_found_by_name_and_moment_and_paged(lab: Lab) -> None:
    moments = []
    for number in range(4):
        await lab.send("rec/no-steps" if number % 2 else "rec/other", {"n": number})
        moments.append(lab.clock.now().isoformat())
        lab.clock.advance(10)

    async with lab.http() as client:

        async def found(**query: str) -> list[int]:
            listed = (await client.get("/v1/events", params=query)).json()["data"]
            return [event["data"]["n"] for event in listed]

        first = (await client.get("/v1/events?limit=2")).json()["data"]
        assert await found(name="rec/other") == [2, 0]
        assert await found(received_after=moments[1]) == [3, 2]
        assert await found(received_before=moments[1], received_after=moments[0]) == []
        assert await found(received_before=moments[2]) == [1, 0]
        assert await found(cursor=first[-1]["internal_id"]) == [1, 0]
        assert (await client.get("/v1/events?received_after=soon")).status_code == 400


def _registration() -> dict[str, object]:
    line = next(line for line in recorded.lines("register") if line.get("path") == "/fn/register")
    body: dict[str, object] = line["body"]
    return body


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"functions": []}, "no functions"),
        ({"url": "file:///etc/passwd"}, "no http"),
        ({"functions": [{"id": "other-x"}]}, "cannot be read"),
        ({"functions": None}, "cannot be read"),
    ],
)
async def test_bad_registrations_are_refused(lab: Lab, change: dict[str, object], reason: str) -> None:
    async with lab.http() as client:
        answer = await client.post("/fn/register", json={**_registration(), "appname": "other", **change})

    assert answer.status_code == 422
    assert reason in answer.json()["error"]


async def test_an_app_cannot_take_another_ones_functions(lab: Lab) -> None:
    async with lab.http() as client:
        answer = await client.post("/fn/register", json={**_registration(), "appname": "thief"})

    assert answer.status_code == 422
    assert "already belongs to app 'rec'" in answer.json()["error"]


async def test_a_hashed_key_is_what_sdks_send(lab: Lab) -> None:
    from app.engine.signing import hashed_key

    async with lab.http(hashed_key(SIGNING_KEY)) as client:
        assert (await client.get("/dev")).status_code == 200


async def test_use_api_routes_give_memos_and_events(lab: Lab) -> None:
    event_id = await lab.send("rec/two-steps")
    (run,) = await lab.engine.runs(event_id=event_id)
    async with lab.http() as client:
        memos = (await client.get(f"/v0/runs/{run.id}/actions")).json()
        events = (await client.get(f"/v0/runs/{run.id}/batch")).json()
        missing: httpx.Response = await client.get("/v0/runs/none/batch")

    last = lab.calls_of("rec-two-steps")[-1].body
    assert memos == last["steps"]
    assert events == last["events"]
    assert missing.status_code == 404
