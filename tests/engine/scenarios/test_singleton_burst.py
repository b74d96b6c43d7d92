"""Five starts of one singleton key in a row: every event gets its run, and the latest wins.

No recording: a real server loses some of them (it was measured to), which `SINGLETON_LOSSY=1` allows.
"""

from pathlib import Path
from typing import Any

from tests.engine.lab import Lab, running
from tests.engine.sample_functions import build
from tests.engine.scenarios import inside
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.lossy import are_over, singleton_lossy
from tests.engine.scenarios.scenario import Scenario, Send


async def play(server: Address) -> Any:
    ids = await SCENARIO.send_to(server)
    return await server.until(lambda: server.ends(ids), are_over if singleton_lossy() else SCENARIO.ends)


SCENARIO = Scenario(
    "singleton-burst",
    [["Cancelled", {}]] * 4 + [["Completed", 4]],
    after_s=10,
    sent=tuple(
        Send(0, {"name": "rec/single-cancel", "data": {"sessionKey": "burst", "m": number}}) for number in range(5)
    ),
    play=play,
)


async def test_inside_this_process(lab: Lab) -> None:
    assert (await inside.play(lab, SCENARIO)).ends == SCENARIO.ends


async def test_inside_this_process_with_the_switch(tmp_path: Path, inside_only: None) -> None:
    async with running(tmp_path / "engine.db", build, singleton_lossy=True) as lab:
        shown = await inside.play(lab, SCENARIO)

    assert are_over(shown.ends) and len(shown.ends) < 5


def test_behind_an_address(played: Any) -> None:
    assert are_over(played) if singleton_lossy() else played == SCENARIO.ends
