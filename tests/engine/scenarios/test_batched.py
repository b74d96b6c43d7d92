"""Four events for batches of three: one run of three, and one of the last when its time is up.

The real server took the events of the recording in from the last to the first. Ours keeps their order.
"""

import json
from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario

ENDS = [["Completed", [{"i": 0}, {"i": 1}, {"i": 2}]], ["Completed", [{"i": 3}]]]


async def play(server: Address) -> Any:
    ids = await SCENARIO.send_to(server)

    async def in_any_order() -> Any:
        return [[status, sorted(output or [], key=json.dumps)] for status, output in await server.ends(ids)]

    return await server.until(in_any_order, ENDS)


SCENARIO = Scenario("batched", ENDS, after_s=3, play=play)


async def test_inside_this_process(lab: Lab) -> None:
    shown = await inside.play(lab, SCENARIO)

    (first, second), (real_first, real_second) = shown.calls, SCENARIO.calls
    events = first["body"]["events"]
    assert [event["data"] for event in events] == first["answer"] == list(reversed(real_first["answer"]))
    assert first["body"]["event"] == events[0]
    assert first.keys() == real_first.keys() and first["body"].keys() == real_first["body"].keys()
    assert second["answer"] == real_second["answer"]
    assert shown.ends == ENDS
    (run,) = (await lab.engine.event(shown.event_ids[1])).runs
    assert run.output == first["answer"], "our own routes know a batch by all its events"


def test_behind_an_address(played: Any) -> None:
    assert played == ENDS
