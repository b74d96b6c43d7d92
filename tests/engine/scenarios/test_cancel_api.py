"""A run that sleeps is cancelled by `DELETE /v1/runs/<id>`, which answers nothing; afterwards it says so."""

import asyncio
from typing import Any

import httpx

from tests.engine import recorded
from tests.engine.lab import Lab
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario


async def _cancelled(http: httpx.AsyncClient, run_id: str) -> list[Any]:
    """What the server answers, and what it tells of the run then."""
    answer = await http.delete(f"/v1/runs/{run_id}")
    for _ in range(100):
        told = (await http.get(f"/v1/runs/{run_id}")).json()["data"]
        if told["status"] != "Running":
            break
        await asyncio.sleep(0.1)
    return [answer.status_code, answer.text, recorded.run(told)]


async def play(server: Address) -> Any:
    (event_id,) = await SCENARIO.send_to(server)
    (run,) = await server.until(lambda: server.runs(event_id), bool)
    return await _cancelled(server.http, run["run_id"])


SCENARIO = Scenario("cancel-api", [["Cancelled", {}]], play=play)
_DELETED = next(line for line in recorded.lines("cancel-api") if line.get("method") == "DELETE")
_TOLD = [_DELETED["status"], _DELETED["resp"], *SCENARIO.runs]


async def test_inside_this_process(lab: Lab) -> None:
    (run,) = await lab.engine.runs(event_id=await lab.send("rec/cancel-me", {"id": 99}))
    async with lab.http() as client:
        assert await _cancelled(client, run.id) == _TOLD

    await lab.pass_time(70, step_s=10)
    assert len(lab.calls_of("rec-cancel-me")) == 1, "nothing later runs"


def test_behind_an_address(played: Any) -> None:
    assert played == _TOLD
