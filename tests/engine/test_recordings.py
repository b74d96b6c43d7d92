"""Plays recorded scenarios against the engine: the SDK must see what it saw from a real server."""

from typing import Any

import pytest

from tests.engine import recorded
from tests.engine.lab import Lab

#: Seconds that pass after the last event, so that retries and sleeps come due.
_SCENARIOS = {
    "no-steps": 1,
    "two-steps": 1,
    "step-retry": 30,
    "step-fail": 40,
    "fn-fail": 1,
    "non-retriable": 1,
    "retry-after": 4,
    "sleepy": 3,
    "waiter": 2,
    "caller": 1,
    "parallel": 2,
    "cancel-me": 1,
    "single-cancel": 5,
    "event-id-dedupe": 1,
    "future-ts": 4,
}


async def play(lab: Lab, scenario: str) -> list[str]:
    """Send what was sent, at the same distances in time; returns the ids of the events."""
    sends, ids = recorded.sends(scenario), list[str]()
    before = sends[0]["t"]
    for send in sends:
        await lab.pass_time(send["t"] - before)
        before, event = send["t"], dict(send["body"])
        if "ts" in event:
            event["ts"] = lab.engine.now_ms() + event["ts"] - int(send["t"] * 1000)
        ids += await lab.engine.send([event])
        await lab.engine.idle()
    await lab.pass_time(_SCENARIOS[scenario])
    return ids


def comparable_recording(scenario: str) -> list[Any]:
    plain = recorded.Plain()
    return [
        plain.exchange(call["query"], call["headers"], call["body"], call["status"], call["resp"])
        for call in recorded.calls(scenario)
    ]


def comparable_calls(lab: Lab, scenario: str) -> list[Any]:
    plain, slugs = recorded.Plain(), {call["query"]["fnId"] for call in recorded.calls(scenario)}
    return [
        plain.exchange(call.query, call.headers, call.body, call.status, call.answer) for call in lab.calls_of(*slugs)
    ]


@pytest.mark.parametrize("scenario", _SCENARIOS)
async def test_sdk_sees_what_the_real_server_showed_it(lab: Lab, scenario: str) -> None:
    await play(lab, scenario)

    assert comparable_calls(lab, scenario) == comparable_recording(scenario)


#: The recordings of these asked before the end.
_ASKED_EARLY = {"step-retry", "step-fail", "cancel-me"}


@pytest.mark.parametrize("scenario", [name for name in _SCENARIOS if name not in _ASKED_EARLY])
async def test_rest_api_tells_the_recorded_end(lab: Lab, scenario: str) -> None:
    ids = await play(lab, scenario)
    ends = [line["resp"]["data"] for line in recorded.lines(scenario) if line.get("path", "").startswith("/v1/runs/")]

    async with lab.http() as client:
        told = [
            (await client.get(f"/v1/runs/{run['run_id']}")).json()["data"]
            for event_id in ids
            for run in (await client.get(f"/v1/events/{event_id}/runs")).json()["data"]
        ]

    plain, recorded_plain = recorded.Plain(), recorded.Plain()
    drop = ("run_id", "event_id", "function_id", "environment_id")
    shown = [plain.value({k: v for k, v in run.items() if k not in drop}) for run in told]
    for end in [recorded_plain.value({k: v for k, v in end.items() if k not in drop}) for end in ends]:
        assert end in shown
