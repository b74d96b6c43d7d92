"""A function with an idempotency key: of two events with one key the second starts nothing. No recording."""

import os
from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario, Send

#: The key counts for a day, and a server may be asked again before.
_KEY = os.urandom(4).hex()
SCENARIO = Scenario(
    "idem",
    [["Completed", {"key": _KEY, "n": 1}], ["Completed", {"key": f"{_KEY}-other", "n": 3}]],
    sent=(
        Send(0, {"name": "rec/idem", "data": {"key": _KEY, "n": 1}}),
        Send(0, {"name": "rec/idem", "data": {"key": _KEY, "n": 2}}),
        Send(0, {"name": "rec/idem", "data": {"key": f"{_KEY}-other", "n": 3}}),
    ),
)


async def test_inside_this_process(lab: Lab) -> None:
    assert (await inside.play(lab, SCENARIO)).ends == SCENARIO.ends


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
