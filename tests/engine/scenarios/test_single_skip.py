"""A singleton that skips: a start while a run of its key is open is dropped. No recording."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario, Send

SCENARIO = Scenario(
    "single-skip",
    [["Completed", "first"], ["Completed", "other"]],
    after_s=10,
    sent=(
        Send(0, {"name": "rec/single-skip", "data": {"sessionKey": "s1", "m": "first"}}),
        Send(1, {"name": "rec/single-skip", "data": {"sessionKey": "s1", "m": "second"}}),
        Send(0, {"name": "rec/single-skip", "data": {"sessionKey": "s2", "m": "other"}}),
    ),
)


async def test_inside_this_process(lab: Lab) -> None:
    assert (await inside.play(lab, SCENARIO)).ends == SCENARIO.ends


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
