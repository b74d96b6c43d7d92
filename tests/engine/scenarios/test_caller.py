"""A function that invokes another twice: the result comes back, and so does the error."""

from typing import Any

from tests.engine.lab import Lab
from tests.engine.scenarios import inside
from tests.engine.scenarios.scenario import Scenario

ENDS = [
    [
        "Completed",
        {
            "err": "StepError",
            "msg": "callee failed",
            "r": {
                "echo": {
                    "_inngest": {
                        "correlation_id": "ulid0.bc8d8647b02deea0ab3e715c220d041ee78cc19d",
                        "expire": "<ms>",
                        "fn_id": "rec-callee",
                        "gid": "uuid0",
                        "name": "call",
                        "source_app_id": "uuid1",
                        "source_fn_id": "uuid2",
                        "source_fn_v": 1,
                    },
                    "x": 1,
                },
                "name": "inngest/function.invoked",
                "w": "worked",
            },
        },
    ]
]
SCENARIO = Scenario("caller", ENDS)


async def test_inside_this_process(lab: Lab) -> None:
    await inside.check(lab, SCENARIO)


def test_behind_an_address(played: Any) -> None:
    assert played == SCENARIO.ends
