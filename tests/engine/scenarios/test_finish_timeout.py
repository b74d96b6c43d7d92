"""A run that does not finish within two seconds is cancelled, and told of as recorded in `lifecycle-events`."""

from typing import Any

from tests.engine import recorded
from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario, Send

SCENARIO = Scenario(
    "finish-timeout", [["Cancelled", {}]], after_s=0, sent=(Send(0, {"name": "rec/finish-timeout", "data": {}}),)
)


async def test_inside_this_process(lab: Lab) -> None:
    shown = await inside.play(lab, SCENARIO)
    await lab.pass_time(1.9, step_s=0.1)
    (run,) = await lab.engine.runs(event_id=shown.event_ids[0])
    assert run.status == "Running"
    await lab.pass_time(0.2, step_s=0.1)

    run = (await lab.engine.run(run.id)).run
    assert (run.status, run.reason) == ("Cancelled", "It did not finish within 2 s.")
    (told,) = lab.calls_of("rec-lifecycle")
    (real,) = [call["body"]["event"] for call in recorded.calls("lifecycle-events")
               if call["body"]["event"]["data"].get("function_id") == "rec-finish-timeout"]  # fmt: skip
    assert recorded.Plain().value(told.body["event"]) == recorded.Plain().value(real)
    await lab.pass_time(40, step_s=5)
    assert len(lab.calls_of("rec-finish-timeout")) == 1, "nothing later runs"


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
