"""An error that says that it must not be tried again: the run fails at the first attempt."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

ENDS = [
    [
        "Failed",
        {"code": "non_retriable_error", "message": "stop now", "name": "NonRetriableError", "stack": "<traceback>"},
    ]
]
SCENARIO = Scenario("non-retriable", ENDS)


async def test_inside_this_process(lab: Lab) -> None:
    await inside.check(lab, SCENARIO)


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
