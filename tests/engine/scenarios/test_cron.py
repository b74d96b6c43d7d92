"""A function of every minute: each minute starts one run, whose event names the instant."""

from typing import Any

from tests.engine import recorded
from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario


async def play(server: Address) -> Any:
    """The event of the first run: no public route finds the runs of a schedule, so our app tells."""

    async def events() -> Any:
        return [call["body"]["event"] for call in await server.calls("rec-cron")]

    return (await server.until(events, bool, SCENARIO.within_s))[0]


SCENARIO = Scenario("cron", [], within_s=90, slow=True, play=play)


async def test_inside_this_process(lab: Lab) -> None:
    await lab.pass_time(180, step_s=1)

    assert inside.calls(lab, "rec-cron") == SCENARIO.calls
    moments = [call.body["event"]["ts"] for call in lab.calls_of("rec-cron")]
    assert [moment % 60_000 for moment in moments] == [0, 0, 0]
    assert [later - moments[0] for later in moments] == [0, 60_000, 120_000]


def test_behind_an_address(played: Any) -> None:
    real = recorded.calls("cron")[0]["body"]["event"]
    assert recorded.Plain().value(played) == recorded.Plain().value(real)
    assert played["ts"] % 60_000 == 0
