"""Three events within the quiet time: one run, of the last of them."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

SCENARIO = Scenario("debounced", [["Completed", {"i": 2}]], after_s=3)


async def test_inside_this_process(lab: Lab) -> None:
    await inside.check(lab, SCENARIO)


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
