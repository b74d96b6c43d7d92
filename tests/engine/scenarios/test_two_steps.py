"""Two steps of one name: each has a memo of its own, also the one that is null."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

SCENARIO = Scenario("two-steps", [["Completed", [{"n": 1}, None]]])


async def test_inside_this_process(lab: Lab) -> None:
    await inside.check(lab, SCENARIO)


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
