"""A singleton that cancels: a second start of one key ends the first run, another key is let alone."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.lossy import are_over, singleton_lossy
from tests.engine.scenarios.scenario import Scenario

SCENARIO = Scenario("single-cancel", [["Cancelled", {}], ["Completed", "other"], ["Completed", "second"]], after_s=10)


async def test_inside_this_process(lab: Lab) -> None:
    await inside.check(lab, SCENARIO)


def test_behind_an_address(played: Any) -> None:
    assert are_over(played) if singleton_lossy() else played == SCENARIO.ends
