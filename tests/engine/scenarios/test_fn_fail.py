"""A function that fails for good: its run fails with the error, and its failure function is told."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

ENDS = [["Failed", {"code": "unknown", "message": "fatal", "name": "RuntimeError", "stack": "<traceback>"}]]
SCENARIO = Scenario("fn-fail", ENDS)


async def test_inside_this_process(lab: Lab) -> None:
    await inside.check(lab, SCENARIO)


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
