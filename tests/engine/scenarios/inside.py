"""A scenario played inside this process on a manual clock: all that the SDK and the REST API show of it."""

import json
from dataclasses import dataclass
from typing import Any

from tests.engine import recorded
from tests.engine.lab import Lab
from tests.engine.scenarios.scenario import Scenario


@dataclass(frozen=True)
class Played:
    """`calls` of the SDK field by field, `ends` of the runs, and `runs` with every field; ids and moments replaced."""

    event_ids: list[str]
    calls: list[Any]
    ends: list[Any]
    runs: list[Any]


async def play(lab: Lab, scenario: Scenario) -> Played:
    """Send what was sent, at the same distances in time."""
    ids = list[str]()
    for send in scenario.sends():
        await lab.pass_time(send.pause_s)
        ids += await lab.engine.send([send.event(lab.engine.now_ms())])
        await lab.engine.idle()
    await lab.pass_time(scenario.after_s)
    told = await runs(lab, ids)
    return Played(ids, calls(lab, *scenario.slugs), ends(told), [recorded.run(run) for run in told])


async def check(lab: Lab, scenario: Scenario) -> None:
    """The SDK sees what a real server showed it, and the REST API tells what a real one told."""
    shown = await play(lab, scenario)

    assert shown.calls == scenario.calls
    assert shown.ends == scenario.ends
    assert all(run in shown.runs for run in scenario.runs)


def calls(lab: Lab, *slugs: str) -> list[Any]:
    """What these functions were asked and answered."""
    plain = recorded.Plain()
    return [
        plain.exchange(call.query, call.headers, call.body, call.status, call.answer) for call in lab.calls_of(*slugs)
    ]


async def runs(lab: Lab, event_ids: list[str]) -> list[dict[str, Any]]:
    """What the REST API tells of the runs of these events."""
    async with lab.http() as client:
        return [
            (await client.get(f"/v1/runs/{run['run_id']}")).json()["data"]
            for event_id in event_ids
            for run in (await client.get(f"/v1/events/{event_id}/runs")).json()["data"]
        ]


def ends(told: list[dict[str, Any]]) -> list[Any]:
    return sorted((recorded.end(run) for run in told), key=json.dumps)
