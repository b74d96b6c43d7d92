"""Ends of every kind: functions that wait for the engine's own events are called with them."""

from typing import Any

from tests.engine import recorded
from tests.engine.lab import Lab
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario

#: The first recorded event of each function, and that of the run cancelled by the API.
_EVENTS = [call["body"]["event"] for call in reversed(recorded.calls("lifecycle-events"))]
_REAL = {event["data"]["function_id"]: event for event in _EVENTS}
_BY_API = next(event for event in _EVENTS if event["data"]["event"]["data"] == {"id": 99})
_SENT = {"rec-two-steps": "rec/two-steps", "rec-fn-fail": "rec/fn-fail", "rec-non-retriable": "rec/non-retriable"}


async def play(server: Address) -> Any:
    """The events that ends caused, by function."""
    ids = [await server.send(name) for name in _SENT.values()]
    ids.append(cancelled := await server.send("rec/cancel-me", {"id": 99}))
    (run,) = await server.until(lambda: server.runs(cancelled), bool)
    await server.http.delete(f"/v1/runs/{run['run_id']}")

    async def told() -> dict[str, Any]:
        events = [call["body"]["event"] for call in await server.calls("rec-lifecycle")]
        return {event["data"]["function_id"]: event for event in events if event["data"]["event"]["id"] in ids}

    return await server.until(told, lambda found: len(found) == len(ids))


SCENARIO = Scenario("lifecycle-events", [], play=play)


async def test_inside_this_process(lab: Lab) -> None:
    for name in ("two-steps", "fn-fail", "non-retriable", "caller"):
        await lab.send(f"rec/{name}")
    await lab.send("rec/cancel-me", {"id": 1})
    await lab.send("rec/cancel", {"id": 1})
    await lab.send("rec/single-cancel", {"m": "first", "sessionKey": "s1"})
    await lab.send("rec/single-cancel", {"m": "second", "sessionKey": "s1"})
    await lab.send("rec/finish-timeout")
    await lab.pass_time(3)

    seen = [call.body["event"] for call in lab.calls_of("rec-lifecycle")]
    assert _plain({event["data"]["function_id"]: event for event in seen}) == _plain(_REAL)


def test_behind_an_address(played: Any) -> None:
    assert _plain(played) == _plain({**{slug: _REAL[slug] for slug in _SENT}, "rec-cancel-me": _BY_API})


def _plain(events: dict[str, Any]) -> dict[str, Any]:
    return {slug: recorded.Plain().value(event) for slug, event in events.items()}
