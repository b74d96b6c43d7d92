"""Events that are none are refused with a reason; what is open to look at has the recorded form."""

import json
from typing import Any

import httpx

from tests.engine import recorded
from tests.engine.lab import EVENT_KEY, Lab
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario

_LINES = recorded.lines("bad-input")
_SENT = [line for line in _LINES if "raw" in line]
_ASKED = {line["path"]: line["resp"] for line in _LINES if "raw" not in line}
(_UNKNOWN_RUN,) = (path for path in _ASKED if path.startswith("/v1/runs/"))


async def _answers(http: httpx.AsyncClient, key: str) -> dict[str, Any]:
    """What a server answers to all that was sent and asked."""
    answers = [await http.post(f"/e/{key}", content=line["raw"]) for line in _SENT]
    return {
        "sent": [[answer.status_code, answer.json()] for answer in answers],
        "asked": {path: (await http.get(path)).json() for path in _ASKED},
    }


async def play(server: Address) -> Any:
    await server.send("rec/no-steps")
    return await _answers(server.http, "key")


SCENARIO = Scenario("bad-input", [], play=play)


async def test_inside_this_process(lab: Lab) -> None:
    await lab.send("rec/no-steps")
    async with lab.http() as client:
        _compare(await _answers(client, EVENT_KEY))


def test_behind_an_address(played: Any) -> None:
    _compare(played)


def _compare(told: dict[str, Any]) -> None:
    for line, (status, answer) in zip(_SENT, told["sent"], strict=True):
        real = json.loads(line["resp"])
        assert (line["raw"], status, answer["status"]) == (line["raw"], line["status"], real["status"])
        assert [bool(event_id) for event_id in answer["ids"]] == [bool(event_id) for event_id in real["ids"]]
        assert _reason(answer) == _reason(real)
    asked = told["asked"]
    assert asked["/health"] == _ASKED["/health"]
    assert asked[_UNKNOWN_RUN]["error"] == _ASKED[_UNKNOWN_RUN]["error"]
    events, functions = "/v1/events?limit=3", "/dev"
    assert asked[events]["data"][0].keys() == _ASKED[events]["data"][0].keys()
    assert asked[functions].keys() == _ASKED[functions].keys()
    assert _function(asked[functions]) == _function(_ASKED[functions])


def _reason(answer: dict[str, Any]) -> str:
    """The sentence of a refusal; where the real server's names its own types, only that there is one."""
    sentence: str = answer.get("error", "")
    return "some" if sentence and not sentence.startswith(("event name", "Request body")) else sentence


def _function(dev: dict[str, Any]) -> dict[str, Any]:
    """How a function is shown, its address and ids aside."""
    (shown,) = [function for function in dev["functions"] if function["slug"] == "rec-no-steps"]
    steps = [{**step, "uri": "<address>"} for step in shown["steps"]]
    plain: dict[str, Any] = recorded.Plain().value({**shown, "steps": steps})
    return plain
