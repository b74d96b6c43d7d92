"""A trigger with a condition, and one with a wildcard: the event below the bound starts nothing. No recording."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario, Send

SCENARIO = Scenario(
    "filtered",
    [["Completed", "rec/alt.one"], ["Completed", "rec/filtered"]],
    sent=(
        Send(0, {"name": "rec/filtered", "data": {"n": 5}}),
        Send(0, {"name": "rec/filtered", "data": {"n": 6}}),
        Send(0, {"name": "rec/alt.one", "data": {}}),
    ),
)


async def test_inside_this_process(lab: Lab) -> None:
    assert (await inside.play(lab, SCENARIO)).ends == SCENARIO.ends


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
