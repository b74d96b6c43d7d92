"""Three runs of one key and one of another, with a limit of one for each key: those of one key follow each other."""

from itertools import pairwise
from typing import Any

from tests.engine import recorded
from tests.engine.lab import Lab
from tests.engine.scenario_app import SLOW_S
from tests.engine.scenarios.address import Address
from tests.engine.scenarios.scenario import Scenario


async def play(server: Address) -> Any:
    """The keys of the events, each with the moments at which the slow steps of its runs ended."""
    ids = await SCENARIO.send_to(server)

    def complete(ends: Any) -> bool:
        return [status for status, _ in ends] == ["Completed"] * 4

    await server.until(lambda: server.ends(ids), complete)
    keys = [send.body["data"]["k"] for send in SCENARIO.sends()]
    moments: dict[str, list[Any]] = {}
    for key, event_id in zip(keys, ids, strict=True):
        moments.setdefault(key, []).extend(run["output"] for run in await server.runs(event_id))
    return moments


SCENARIO = Scenario("conc", [], play=play)


async def test_inside_this_process(lab: Lab) -> None:
    await lab.engine.send([send.body for send in SCENARIO.sends()])
    await lab.engine.idle()

    calls = [(call.query, call.headers, call.body, call.status, call.answer) for call in lab.calls_of("rec-conc")]
    real = [(call["query"], call["headers"], call["body"], call["status"], call["resp"])
            for call in recorded.calls("conc")]  # fmt: skip
    assert _by_event(calls) == _by_event(real)
    of_a = [body["ctx"]["run_id"] for _, _, body, _, _ in calls if body["event"]["data"] == {"k": "a"}]
    assert of_a == sorted(of_a), "one after the other, both calls of each"


def _by_event(calls: list[tuple[Any, ...]]) -> list[list[Any]]:
    """The calls of each event, in the order in which these were sent."""
    found: dict[str, list[Any]] = {}
    for call in calls:
        found.setdefault(call[2]["event"]["id"], []).append(call)
    plains = [(recorded.Plain(), found[event_id]) for event_id in sorted(found)]
    return [[plain.exchange(*call) for call in calls] for plain, calls in plains]


def test_behind_an_address(played: Any) -> None:
    assert {key: len(moments) for key, moments in played.items()} == {"a": 3, "b": 1}
    assert min(later - earlier for earlier, later in pairwise(sorted(played["a"]))) >= 0.9 * SLOW_S
    assert played["b"][0] < max(played["a"]), "another key does not wait for them"
