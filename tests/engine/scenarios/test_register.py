"""An app registers twice: the first time something has changed, the second time nothing."""

import json
from typing import Any

import httpx

from tests.engine import recorded
from tests.engine.lab import Lab
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario

_LINES = [line for line in recorded.lines("register") if line.get("path") == "/fn/register"]
_SENT = next(line for line in recorded.lines("register") if line.get("path", "").startswith("/e/"))


def _other(name: str) -> dict[str, Any]:
    """The recorded registration as that of another app, whose functions nothing starts."""
    text = json.dumps(_LINES[0]["body"]).replace('"rec"', f'"{name}"').replace("rec-", f"{name}-")
    body: dict[str, Any] = json.loads(text.replace('"rec/', f'"{name}/').replace("fnId=rec", f"fnId={name}"))
    functions = [function for function in body["functions"] if "cron" not in function["triggers"][0]
                 and "inngest/" not in json.dumps(function["triggers"])]  # fmt: skip
    return {**body, "functions": functions}


async def _answers(http: httpx.AsyncClient, name: str) -> dict[str, Any]:
    answers = [await http.post("/fn/register", json=_other(name)) for _ in _LINES]
    shown = (await http.get("/dev")).json()["functions"]
    return {
        "registered": [[answer.status_code, answer.json()] for answer in answers],
        "functions": {function["slug"]: function for function in shown},
    }


async def play(server: Address) -> Any:
    answers = await _answers(server.http, f"other{server.session}")
    again = await server.app.put("/api/inngest")
    sent = await server.http.post("/e/NO_EVENT_KEY_SET", json=_SENT["body"], headers=_SENT["headers"])
    return {**answers, "again": again.json(), "sent": sent.json(), "name": f"other{server.session}"}


SCENARIO = Scenario("register", [], play=play)


async def test_inside_this_process(lab: Lab) -> None:
    async with lab.http() as client:
        _compare(await _answers(client, "other"), "other")
        assert (await client.put("/fn/register", json=_other("other"))).json()["modified"] is False
    async with lab.http(None) as client:
        assert (await client.post("/fn/register", json=_other("third"))).status_code == 401


def test_behind_an_address(played: Any) -> None:
    _compare(played, played["name"])
    assert played["again"].keys() == _LINES[0]["resp"].keys()
    assert played["sent"].keys() == _SENT["resp"].keys()
    assert len(set(played["sent"]["ids"])) == 2


def _compare(told: dict[str, Any], name: str) -> None:
    for line, (status, answer) in zip(_LINES, told["registered"], strict=True):
        real = line["resp"]
        assert (status, answer["ok"], answer["modified"]) == (line["status"], real["ok"], real["modified"])
        assert answer.keys() == real.keys()
    registered = {function["id"] for function in _other(name)["functions"]}
    assert registered <= told["functions"].keys()
    assert told["functions"][f"{name}-filtered"]["triggers"][0]["expression"] == "event.data.n > 5"
