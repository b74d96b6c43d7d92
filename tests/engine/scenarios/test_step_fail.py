"""A step that fails at every attempt: its error is its memo, and the function may go on."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

#: The recording asked before the end.
SCENARIO = Scenario("step-fail", [["Completed", {"caught": "always"}]], after_s=40, within_s=120, slow=True)


async def test_inside_this_process(lab: Lab) -> None:
    shown = await inside.play(lab, SCENARIO)

    assert shown.calls == SCENARIO.calls
    assert shown.ends == SCENARIO.ends


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
