"""A step that fails twice: it is called again with the next attempt, each time after half a minute."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

#: The recording ends before the last attempt.
SCENARIO = Scenario("step-retry", [["Completed", "fine"]], after_s=30, within_s=180, slow=True)


async def test_inside_this_process(lab: Lab) -> None:
    shown = await inside.play(lab, SCENARIO)
    assert shown.calls == SCENARIO.calls

    await lab.pass_time(120, step_s=10)
    assert inside.ends(await inside.runs(lab, shown.event_ids)) == SCENARIO.ends


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
