"""A function with an idempotency key: of two events with one key the second starts nothing. No recording."""

import json
from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario, Send

_KEYS = ("one", "one", "other")


async def play(server: Address) -> Any:
    """A key counts for a day, and a server may be asked again before: so each session has its own."""
    keys = [f"{key}-{server.session}" for key in _KEYS]
    ids = [await server.send("rec/idem", {"key": key, "n": number}) for number, key in enumerate(keys)]

    async def without_session() -> Any:
        text = json.dumps(await server.ends(ids))
        return json.loads(text.replace(f"-{server.session}", ""))

    return await server.until(without_session, SCENARIO.ends)


SCENARIO = Scenario(
    "idem",
    [["Completed", {"key": "one", "n": 0}], ["Completed", {"key": "other", "n": 2}]],
    sent=tuple(Send(0, {"name": "rec/idem", "data": {"key": key, "n": number}}) for number, key in enumerate(_KEYS)),
    play=play,
)


async def test_inside_this_process(lab: Lab) -> None:
    assert (await inside.play(lab, SCENARIO)).ends == SCENARIO.ends


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
