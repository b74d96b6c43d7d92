"""A sleep for a second and one until a moment: a call when each is over."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

SCENARIO = Scenario("sleepy", [["Completed", "awake"]], after_s=10)


async def test_inside_this_process(lab: Lab) -> None:
    await inside.check(lab, SCENARIO)


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
